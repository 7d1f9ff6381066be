"""Text cases in files: `== name`, SQL up to `----`, then the expected result, up to the next name."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    name: str
    sql: str
    expected: str


def cases_of(folder: str) -> Iterator[Case]:
    """All cases of a folder's files, named `file: case`."""
    for path in sorted((CASES / folder).glob("*.txt")):
        for block in path.read_text().split("\n== ")[1:]:
            name, body = block.split("\n", 1)
            sql, _, expected = body.partition("\n----\n")
            yield Case(f"{path.stem}: {name}", sql, expected.strip("\n"))
