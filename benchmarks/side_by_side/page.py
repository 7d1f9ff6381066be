"""`docs/benchmarks.md` has a part for each benchmark, which rewrites it and leaves the others unchanged."""

import re
from pathlib import Path

_MARK = re.compile(r"^<!-- written by (.+) -->\n", re.MULTILINE)


def write_part(page: Path, writer: str, text: str) -> None:
    """Replace the part that *writer* (a make target) wrote, or append it."""
    parts = read_parts(page.read_text()) if page.exists() else {}
    parts[writer] = text.strip("\n") + "\n"
    page.write_text("\n".join(f"<!-- written by {name} -->\n{part}" for name, part in parts.items()))


def read_parts(text: str) -> dict[str, str]:
    """Return the part of each benchmark, in the order of the page."""
    pieces = _MARK.split(text)
    return {writer: part.strip("\n") + "\n" for writer, part in zip(pieces[1::2], pieces[2::2], strict=True)}
