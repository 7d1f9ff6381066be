"""Cases as text: `== title`, then sections that begin with `--- name`.

A line that begins with # is a comment only before the first case.
"""

from dataclasses import dataclass, field
from pathlib import Path

TESTDATA = Path(__file__).parent / "testdata"


@dataclass
class Case:
    """One case; its sections by name."""

    title: str
    sections: dict[str, str] = field(default_factory=dict)


def cases(name: str) -> list[Case]:
    """The cases of a file. A case without a title is named by its schema."""
    found: list[Case] = []
    section: list[str] | None = None
    gathered: list[tuple[Case, str, list[str]]] = []
    for line in (TESTDATA / f"{name}.txt").read_text().splitlines():
        starts_untitled = line == "--- schema" and (not found or "schema" in found[-1].sections)
        if line.startswith("== ") or starts_untitled:
            found.append(Case(line.removeprefix("== ") if line.startswith("== ") else ""))
            section = None
        if line.startswith("--- "):
            section = []
            found[-1].sections[line[4:]] = ""
            gathered.append((found[-1], line[4:], section))
        elif section is not None:
            section.append(line)
    for case, key, lines in gathered:
        case.sections[key] = "\n".join(lines).rstrip("\n")
    for case in found:
        case.title = case.title or case.sections["schema"]
    assert found, f"{name} has no cases"
    return found
