"""Functions of Python files that CREATE FUNCTION names: found, called and held to their types."""

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.sql import parse
from penstock.sql.analysis import analyze
from penstock.sql.catalog import Catalog, Column
from penstock.sql.evaluation import UserFunctionError, UserFunctions, compile_row, compile_value
from penstock.sql.language import types
from penstock.sql.language.types import Array

WORDS = """
from decimal import Decimal

def shout(word, times):
    return [word.upper() + "!"] * times

def same(value):
    return value

def parts(*values):
    return {"N": len(values), "FIRST": values[0]}

def late(a, b=None):
    return 1

LIMIT = 5
"""


def _catalog(*signatures: str) -> Catalog:
    catalog = Catalog()
    for signature in signatures:
        catalog = analyze(parse(f"CREATE FUNCTION {signature};"), catalog).catalog
    return catalog


def _compiled(catalog: Catalog, files: UserFunctions, expression: str):
    query = parse(f"SELECT {expression} FROM s EMIT CHANGES;")
    return compile_value(query.items[0].expression, (), catalog.functions, files)


def _outcome(signature: str, expression: str, files: dict[str, str] | None = None) -> tuple[Any, list[str]]:
    catalog = _catalog(signature)
    function = _compiled(catalog, UserFunctions(files or {"words.py": WORDS}), expression)
    reports: list[str] = []
    function.report = lambda text, error: reports.append(f"{text}: {error}")
    return function(()), reports


def test_a_function_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "words.py").write_text(WORDS)
    catalog = _catalog("shout(word STRING, times BIGINT) RETURNS ARRAY<STRING> AS 'lib/words.py:shout'")
    files = UserFunctions.read(catalog.functions.values(), tmp_path)
    files.check(catalog.function("SHOUT"))
    function = _compiled(catalog, files, "shout('hey', 2)[1]")
    assert function(()) == "HEY!"
    (tmp_path / "lib" / "words.py").unlink()
    assert pickle.loads(pickle.dumps(function))(()) == "HEY!"


@pytest.mark.parametrize(
    ("type_", "given", "result"),
    [
        ("INT", "5", 5),
        ("DOUBLE", "5", 5.0),
        ("DECIMAL(5, 2)", "1.5", Decimal("1.50")),
        ("ARRAY<DOUBLE>", "ARRAY[1, NULL]", [1.0, None]),
        ("MAP<STRING, INT>", "MAP('a' := 1)", {"a": 1}),
        ("STRUCT<a INT, b STRING>", "STRUCT(a := 1, b := 'x')", {"A": 1, "B": "x"}),
        ("TIMESTAMP", "'2020-01-01'", 1_577_836_800_000),
        ("STRING", "NULL", None),
    ],
)
def test_arguments_and_results_have_their_types(type_: str, given: str, result: Any) -> None:
    found, reports = _outcome(f"same(v {type_}) RETURNS {type_} AS 'words.py:same'", f"same({given})")
    assert (repr(found), reports) == (repr(result), [])


@pytest.mark.parametrize(
    ("takes", "gives", "given", "shown"),
    [
        ("BIGINT", "INT", "2147483648", "2147483648"),
        ("STRING", "INT", "'x'", "'x'"),
        ("BOOLEAN", "INT", "true", "True"),
        ("BOOLEAN", "DOUBLE", "true", "True"),
        ("DOUBLE", "DECIMAL(5, 2)", "1.5", "1.5"),
        ("DECIMAL(5, 3)", "DECIMAL(5, 2)", "1.555", "Decimal('1.555')"),
        ("INT", "DECIMAL(3, 2)", "10", "10"),
        ("INT", "STRING", "1", "1"),
        ("BIGINT", "TIME", "86400000", "86400000"),
        ("ARRAY<INT>", "ARRAY<STRING>", "ARRAY[1]", "[1]"),
        ("INT", "ARRAY<INT>", "1", "1"),
        ("STRUCT<a INT, c INT>", "STRUCT<a INT>", "STRUCT(a := 1, c := 2)", "{'A': 1, 'C': 2}"),
    ],
)
def test_a_result_of_another_type_is_an_error(takes: str, gives: str, given: str, shown: str) -> None:
    found, reports = _outcome(f"same(v {takes}) RETURNS {gives} AS 'words.py:same'", f"same({given})")
    assert found is None
    (report,) = reports
    result = gives.replace("INT", "INTEGER").replace("<a", "<A")
    problem = f"found {shown} as its result, expected {result}"
    assert report.endswith(f": function SAME of words.py:same: {problem}")


def test_a_struct_without_a_field_has_null_there() -> None:
    gives = "STRUCT<n INT, first STRING, rest STRING>"
    found, reports = _outcome(f"parts(a STRING, b INT) RETURNS {gives} AS 'words.py:parts'", "parts('x', 1)")
    assert (found, reports) == ({"N": 2, "FIRST": "x", "REST": None}, [])


def test_an_error_names_function_file_and_values() -> None:
    signature = "shout(word STRING, times INT) RETURNS ARRAY<STRING> AS 'words.py:shout'"
    found, reports = _outcome(signature, "shout(CAST(NULL AS STRING), 2)")
    assert found is None
    assert len(reports) == 1
    assert "function SHOUT of words.py:shout, given (None, 2): AttributeError: 'NoneType'" in reports[0]


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("words.py:none", WORDS, "function F: found no function none in words.py"),
        ("words.py:LIMIT", WORDS, "function F: found no function LIMIT in words.py"),
        ("words.py:shout", WORDS, r"found shout\(word, times\) in words.py, expected it to take 1 argument$"),
        ("words.py:f", "import nothing_there", "found words.py, which does not run: ModuleNotFoundError"),
        ("words.py:f", "def f(:", "found words.py, which does not run: SyntaxError"),
        ("other.py:f", WORDS, "function F: found no text of other.py"),
    ],
)
def test_a_file_without_the_function_is_refused(file: str, text: str, problem: str) -> None:
    catalog = _catalog(f"f(a INT) RETURNS INT AS '{file}'")
    files = UserFunctions({"words.py": text})
    for attempt in (lambda: files.check(catalog.function("F")), lambda: _compiled(catalog, files, "f(1)")):
        with pytest.raises(UserFunctionError, match=problem):
            attempt()


def test_parameters_may_have_defaults() -> None:
    assert _outcome("late(a INT) RETURNS INT AS 'words.py:late'", "late(1)") == (1, [])


@pytest.mark.parametrize("name", ["../words.py", "/words.py", "none.py"])
def test_files_are_read_below_their_folder_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(WORDS)
    (tmp_path / "ext").mkdir()
    catalog = _catalog(f"f(a INT) RETURNS INT AS '{name}:same'")
    with pytest.raises(UserFunctionError, match=f"the file {name}|no file {name}"):
        UserFunctions.read(catalog.functions.values(), tmp_path / "ext")


def test_a_file_runs_once_in_a_process() -> None:
    counting = "calls = []\ndef count():\n    calls.append(1)\n    return len(calls)\n"
    catalog = _catalog("count_it() RETURNS INT AS 'counting.py:count'")
    functions = [_compiled(catalog, UserFunctions({"counting.py": counting}), "count_it()") for _ in range(2)]
    assert [function(()) for function in functions] == [1, 2]


def test_only_the_files_that_are_called_travel() -> None:
    files = UserFunctions({"words.py": WORDS, "other.py": "def f(a): return a"})
    catalog = _catalog("f(a INT) RETURNS INT AS 'other.py:f'", "same(a INT) RETURNS INT AS 'words.py:same'")
    assert b"shout" not in pickle.dumps(_compiled(catalog, files, "f(1)"))


def test_a_function_that_sorts_its_argument_changes_no_other_column() -> None:
    files = UserFunctions({"sort.py": "def largest(values):\n    values.sort()\n    return values.pop()\n"})
    catalog = _catalog("largest(v ARRAY<INT>) RETURNS INT AS 'sort.py:largest'")
    schema = [Column("V", Array(types.INTEGER))]
    query = parse("SELECT largest(v), v, largest(v) FROM s EMIT CHANGES;")
    row = compile_row([each.expression for each in query.items], schema, catalog.functions, files)
    assert row(([3, 9, 1],)) == (9, [3, 9, 1], 9)


def test_a_file_that_can_t_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"name = '\xe9'")
    for name, why in (("nothing.py", "No such file or directory"), ("latin.py", "it is not UTF-8")):
        functions = _catalog(f"f(x INT) RETURNS INT AS '{name}:f'").functions.values()
        with pytest.raises(UserFunctionError, match=f"found no file {name} to read below .*: {why}$"):
            UserFunctions.read(functions, tmp_path)
