"""The example of docs/sql.md prints the output shown there."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == code.rsplit("\n# ", 1)[1]
