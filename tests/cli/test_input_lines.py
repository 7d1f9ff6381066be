"""Lines of input, and the work that goes on while none arrives."""

import io
import os
from pathlib import Path

import pytest

from penstock.cli import input_lines
from penstock.cli.input_lines import lines_of


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 65536])
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n\nbc\r\nd", [b"a", b"", b"bc", b"d"]),
        (b"a b\rc\nd\n", [b"a b\rc", b"d"]),
    ],
)
def test_lines_are_those_of_the_file_however_its_bytes_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, lines: list[bytes], chunk_bytes: int
) -> None:
    monkeypatch.setattr(input_lines, "_CHUNK_BYTES", chunk_bytes)
    path = tmp_path / "input"
    path.write_bytes(data)
    with path.open("rb") as source:
        assert list(lines_of(source, lambda: None)) == lines
    assert list(lines_of(io.BytesIO(data), lambda: None)) == lines


def test_work_goes_on_while_no_line_arrives() -> None:
    reading, writing = os.pipe()
    turns = 0

    def when_idle() -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            os.write(writing, b"line\nhalf")
        if turns == 4:
            os.close(writing)

    with open(reading, "rb") as source:
        assert list(lines_of(source, when_idle)) == [b"line", b"half"]
    assert turns == 4
