"""The statements of one request, each with the properties and variables that apply to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from penstock.sql.engine.ground.errors import EngineError
from penstock.sql.engine.ground.masking import masked
from penstock.sql.engine.ground.properties import checked_override, known_property
from penstock.sql.language import statements as s
from penstock.sql.language.errors import why_unread
from penstock.sql.language.parsing.script import parse_script

SCRIPTS_DEPTH_MAX: Final = 16
"""Limit on the nesting of RUN SCRIPT, so that a script that runs itself ends."""
STATEMENTS_MAX: Final = 10_000
"""Limit on the statements of one request, those of scripts included."""


@dataclass(frozen=True)
class Step:
    """One statement of a request.

    ``text`` is the statement as it was written, but `masked`; it begins at ``start`` in ``script``.
    ``overrides`` include the effect of each SET and UNSET up to here; ``variables`` are filled in only for
    SHOW VARIABLES.
    """

    statement: s.Statement
    text: str
    script: str
    start: int
    overrides: Mapping[str, str]
    variables: Mapping[str, str]

    @property
    def is_alone(self) -> bool:
        """Whether the script consists of this statement alone."""
        return self.script.strip().rstrip(";") == self.text.rstrip(";")


def steps_of(
    text: str,
    overrides: dict[str, str],
    variables: dict[str, str],
    scripts: Path | None,
    depth: int = 0,
) -> Iterator[Step]:
    """Parse a text into steps.

    SET, UNSET, DEFINE and UNDEFINE change ``overrides`` and ``variables``; RUN SCRIPT yields the statements
    of a file below ``scripts``. Raises SqlError or EngineError for a statement that can't be read.
    """
    for found in parse_script(text, variables):
        statement = found.statement
        text_shown = masked(statement) if isinstance(statement, s.CreateConnector) else found.text
        shown = f"{text_shown};"
        match statement:
            case s.SetProperty(name, value):
                known, checked = _named(shown, name, value)
                overrides[known] = checked
            case s.UnsetProperty(name):
                overrides.pop(known_property(name).name, None)
            case s.RunScript(path):
                script = _script(path, scripts, depth, shown)
                yield from steps_of(script, overrides, variables, scripts, depth + 1)
                continue
        # Variables are already substituted in the text. A copy of them in each step would take memory in
        # proportion to statements times variables.
        is_listed = isinstance(statement, s.Show) and statement.what is s.Listed.VARIABLES
        held = dict(variables) if is_listed else {}
        yield Step(statement, shown, text, found.place.offset, dict(overrides), held)


def _named(text: str, name: str, value: str) -> tuple[str, str]:
    try:
        return checked_override(name, value)
    except EngineError as error:
        raise error.of(text) from None


def _script(name: str, scripts: Path | None, depth: int, text: str) -> str:
    if scripts is None:
        raise EngineError(
            "RUN SCRIPT is executed by the shell; a server executes it only if 'ksql.script.dir' names the "
            "folder of its scripts",
            statement_text=text,
        )
    if depth >= SCRIPTS_DEPTH_MAX:
        raise EngineError(
            f"found scripts nested {depth} deep, expected {SCRIPTS_DEPTH_MAX} at most",
            statement_text=text,
        )
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise EngineError(
            f"found the script {name}, expected one below the folder of scripts", statement_text=text
        )
    try:
        return (scripts / path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(
            f"found no script {name} to read below {scripts}: {why_unread(error)}", statement_text=text
        ) from None
