"""The grammar of SQL in text cases; any text leads to a statement or to a SqlError, and to no other error."""

import os
import random

import pytest
from sql_cases import Case, cases_of
from sql_outcomes import outcome

from penstock.sql import Place, SqlError, parse, parse_script, print_statement
from penstock.sql.language.parsing.commands import _STATEMENTS
from penstock.sql.language.parsing.cursor import NESTING_MAX
from penstock.sql.language.parsing.expressions import OPERATORS_MAX
from penstock.sql.language.statements import Statement

STATEMENTS = list(cases_of("statements"))
ERRORS = list(cases_of("errors"))


@pytest.mark.parametrize("case", STATEMENTS + ERRORS, ids=lambda case: case.name)
def test_a_text_gives_what_the_case_says(case: Case) -> None:
    assert outcome(case.sql) == case.expected


@pytest.mark.parametrize("case", STATEMENTS, ids=lambda case: case.name)
def test_what_is_printed_is_read_as_the_same_statement(case: Case) -> None:
    for each in parse_script(case.sql):
        assert parse(print_statement(each.statement)) == each.statement


def _kinds(root: type[Statement]) -> set[str]:
    return {root.__name__}.union(*(_kinds(below) for below in root.__subclasses__()))


def test_every_kind_of_statement_has_a_case() -> None:
    read = [each.statement for case in STATEMENTS for each in parse_script(case.sql)]
    assert {type(statement).__name__ for statement in read} == _kinds(Statement) - {"Statement"}
    words = {case_word for case in STATEMENTS for case_word in case.sql.upper().replace(";", " ").split()}
    assert set(_STATEMENTS) <= words


def test_a_statement_keeps_its_text_and_place() -> None:
    first, second = parse_script("  SHOW  STREAMS ; -- and\n\n DROP TABLE\n t")
    assert (first.text, first.place.line, first.place.column) == ("SHOW  STREAMS", 1, 3)
    assert (second.text, second.place.line, second.place.column) == ("DROP TABLE\n t", 3, 2)


def test_places_are_those_of_the_text_wherever_statements_stand() -> None:
    text = "SHOW STREAMS;;\n\n SHOW TABLES; SHOW\nTOPICS;\n/* \n */ SHOW TYPES"
    for each in parse_script(text):
        before = text[: each.place.offset]
        assert each.place.line == before.count("\n") + 1
        assert each.place.column == len(before.rpartition("\n")[2]) + 1
        assert text.startswith(each.text, each.place.offset)


def test_an_error_tells_its_parts() -> None:
    with pytest.raises(SqlError) as caught:
        parse("SELECT a,\n b FROM 5")
    error = caught.value
    assert error.place is not None
    assert (error.place.line, error.place.column) == (2, 9)
    assert (error.found, error.expected) == ("5", ("a stream or table",))


def test_statements_before_a_wrong_one_are_read() -> None:
    script = parse_script("SHOW STREAMS; SHOW NOTHING;")
    assert print_statement(next(script).statement) == "SHOW STREAMS"
    with pytest.raises(SqlError, match="found NOTHING"):
        next(script)


def test_variables_of_the_session_are_used_and_changed() -> None:
    session = {"source": "orders", "gone": "x"}
    texts = [
        print_statement(each.statement)
        for each in parse_script("SELECT * FROM ${source}; DEFINE a = '${source}s'; UNDEFINE gone;", session)
    ]
    assert texts[:2] == ["SELECT * FROM ORDERS", "DEFINE a = 'orderss'"]
    assert session == {"source": "orders", "a": "orderss"}


@pytest.mark.parametrize("text", ["", "SHOW STREAMS; SHOW TABLES"])
def test_parse_takes_one_statement(text: str) -> None:
    with pytest.raises(SqlError, match="expected one statement"):
        parse(text)


def _nested(levels: int) -> str:
    return f"SELECT {'(' * levels}1{')' * levels} FROM s"


def test_depth_is_bounded() -> None:
    assert parse(_nested(NESTING_MAX - 1))
    for text in (
        _nested(NESTING_MAX),
        _nested(3_000),
        f"SELECT {'NOT ' * 3_000} a FROM s",
        f"SELECT {'- ' * 3_000} a FROM s",
        f"SELECT CAST(a AS {'ARRAY<' * 3_000} FROM s",
        "EXPLAIN " * 3_000,
    ):
        with pytest.raises(SqlError, match="levels, one inside the other"):
            parse(text)


def test_levels_of_different_kinds_are_bounded_together() -> None:
    def deep(operators: int, levels: int) -> str:
        row = f"{'(' * levels}a{''.join(['->b' * operators + ')'] * levels)}"
        return f"SELECT {row} FROM s"

    assert parse(print_statement(parse(deep(3, 35)))) == parse(deep(3, 35))
    with pytest.raises(SqlError, match="levels, expected up to"):
        parse(deep(5, 35))


def test_long_rows_of_operators_are_bounded() -> None:
    longest = f"SELECT {' + '.join('a' * (OPERATORS_MAX + 1))} FROM s"
    assert parse(print_statement(parse(longest))) == parse(longest)
    for operator in (" + ", " AND ", "->", " || "):
        with pytest.raises(SqlError, match="in a row"):
            parse(f"SELECT {operator.join('a' * (OPERATORS_MAX + 2))} FROM s")


def _mutated(text: str, other: str, choose: random.Random) -> str:
    start, end = sorted(choose.randrange(len(text) + 1) for _ in range(2))
    end = min(end, start + 12)
    match choose.randrange(4):
        case 0:
            return text[:start] + text[end:]
        case 1:
            at = choose.randrange(len(other))
            return text[:start] + other[at : at + choose.randrange(1, 30)] + text[start:]
        case 2:
            return text[:start] + choose.choice("'\"`$(){}[]<>;,.:=-+*/%|@é\0\n\r\t0e ") + text[end:]
    words = text.split(" ")
    at = choose.randrange(len(words))
    words[at] = choose.choice(other.split(" "))
    return " ".join(words)


def test_the_words_of_a_text_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sql.language.parsing.lexer.TOKENS_MAX", 10)
    assert len(list(parse_script("SHOW TYPES;" * 3))) == 3
    with pytest.raises(SqlError, match="line 1, column 39: found more than 10 words and symbols"):
        list(parse_script("SHOW TYPES;" * 4))


def test_mutated_statements_raise_nothing_else() -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    choose = random.Random(seed)
    texts = [case.sql for case in STATEMENTS + ERRORS]
    read = wrong = 0
    places: list[tuple[str, Place | None]] = []
    for _ in range(800):
        text = choose.choice(texts)
        for _ in range(choose.randrange(1, 4)):
            text = _mutated(text, choose.choice(texts), choose)
        try:
            for each in parse_script(text):
                read += 1
                assert parse(print_statement(each.statement)) == each.statement, each.text
        except SqlError as error:
            wrong += 1
            places.append((text, error.place))
    assert not [text for text, place in places if place is None or not 0 <= place.offset <= len(text)]
    assert read > 100
    assert wrong > 100
