"""`penstock streams` without a run: files that define no application, wrong options, missing parts."""

from __future__ import annotations

import socket
from pathlib import Path

import pyspark
import pytest
from typer.testing import CliRunner

from penstock.cli.app_file import AppFileError, load_app
from penstock.cli.streams import app

GOOD = """\
from penstock.streams import App, string

shop = App("shop", key=string, value=string)
shop.stream("clicks").group_by_key().count(store="counts").to_stream().to("totals")
"""
TWO = GOOD + "alias = shop\nother = App('other')\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop_app.py"


def invoke(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "400"})
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", r"shop_app.py has no App: expected one in the module, such as app = App\(\"shop\"\)"),
        (TWO, r"has several Apps: alias \(shop\), other \(other\), shop \(shop\)\. Choose one with --app"),
        ("import json\n\nimport no_such_module\n", r"line 3: ModuleNotFoundError: .*no_such_module"),
        ("def f(:\n    pass\n", r"line 1: SyntaxError"),
        ("import sys\nsys.exit('no')\n", r"line 2: SystemExit: no"),
        ("from penstock.streams import App\nApp('a b')\n", r"line 2: TopologyError: .*'a b'"),
        ("import beside_broken\n", r"line 1 \(beside_broken.py, line 2\): ZeroDivisionError"),
    ],
)
def test_a_file_without_one_application_is_told_with_its_line(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    file.with_name("beside_broken.py").write_text("x = 1\n1 / 0\n")
    with pytest.raises(AppFileError, match=said):
        load_app(file)


def test_the_app_is_chosen_by_variable_or_by_its_name(file: Path) -> None:
    file.write_text(TWO)
    for name, found in [("alias", "shop"), ("shop", "shop"), ("other", "other")]:
        assert load_app(file, name)[0].name == found
    with pytest.raises(AppFileError, match=r"no App 'third': it has alias \(shop\), other \(other\), shop"):
        load_app(file, "third")


def test_code_for_a_script_does_not_run_and_modules_beside_are_found(file: Path) -> None:
    file.with_name("prices_beside.py").write_text("TOPIC = 'clicks'\n")
    file.write_text(
        "from penstock.streams import App, string\nimport prices_beside\n"
        "shop = App('shop', key=string, value=string)\nshop.stream(prices_beside.TOPIC).to('all')\n"
        "if __name__ == '__main__':\n    raise SystemExit('run as a script')\n"
    )
    application, _ = load_app(file)
    assert application.topology().source_topics().keys() == {"clicks"}


def test_describe_prints_the_plan_and_its_picture(file: Path) -> None:
    file.write_text(GOOD)
    code, said = invoke("describe", file)
    assert code == 0
    assert "Sub-topology: 0" in said
    assert "(topics: [clicks])" in said
    code, said = invoke("describe", file, "--mermaid")
    assert code == 0
    assert said.startswith("flowchart")


def test_a_missing_file_and_a_wrong_one_are_named(tmp_path: Path) -> None:
    code, said = invoke("describe", tmp_path / "nowhere.py")
    assert (code, "nowhere.py: there is no such file" in said) == (2, True)
    code, said = invoke("describe", tmp_path)
    assert (code, "expected a Python file, *.py" in said) == (2, True)


def test_on_a_cluster_the_checkpoint_has_no_default(file: Path) -> None:
    file.write_text(GOOD)
    code, said = invoke("run", file, "--master", "yarn")
    assert code == 2
    assert "--checkpoint: expected a directory or URI that all nodes of yarn reach" in said


@pytest.mark.parametrize(
    "words",
    [("run",), ("submit-command", "--checkpoint", "hdfs:///checkpoints/shop")],
    ids=lambda words: words[0],
)
def test_another_version_of_spark_is_one_line(
    file: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    file.write_text(GOOD)
    monkeypatch.setattr(pyspark, "__version__", "4.0.5")
    code, said = invoke(*words, file)
    assert code == 1
    assert said.startswith("error: streams applications need Spark 4.3, found 4.0.5: pip install")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["--master", "somewhere"], 2, "--master somewhere: expected local[N], spark://HOST:PORT, yarn"),
        (["--option", "maxOffsetsPerTrigger"], 2, "expected NAME=VALUE, found 'maxOffsetsPerTrigger'"),
        (["--conf", "=x"], 2, "expected NAME=VALUE, found '=x'"),
        (["--profile", "fast"], 2, "'fast'"),
        (["--guarantee", "at-most-once"], 2, "'at-most-once'"),
        (["--master", "spark://127.0.0.1:1"], 3, "--master: no Spark master answers at 127.0.0.1:1"),
        (["--bootstrap", "127.0.0.1:1"], 3, "no broker answers at 127.0.0.1:1"),
    ],
)
def test_wrong_words_end_before_spark_starts(file: Path, words: list[str], exit_code: int, said: str) -> None:
    file.write_text(GOOD)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # no request is ever sent to it
        words = ["--bootstrap", f"127.0.0.1:{listener.getsockname()[1]}", *words]
        code, found = invoke("run", file, "--checkpoint", file.parent / "checkpoint", *words)
    assert said in found
    assert code == exit_code
