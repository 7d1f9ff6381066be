"""Names of fields in configurations. Nested ones are paths with dots in version 2 of the syntax (KIP-821)."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.errors import ConfigInvalid
from penstock.connect.transforms.fields.part import require_dict

_ACCESS: Final = "nested field access"


def parse_path(text: str, syntax_version: str) -> tuple[str, ...]:
    """Parse the name of a field into the names from the top down to it.

    Raises:
        ConfigInvalid: a backtick at the start of a name has no other at its end.
    """
    return (text,) if syntax_version.upper() == "V1" else _steps(text)


def _steps(path: str) -> tuple[str, ...]:
    steps = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            step, at = _quoted(path, at)
        else:
            end = path.find(".", at)
            end = len(path) if end < 0 else end
            step, at = path[at:end], end + 1
        steps.append(step)
    if path.endswith(".") or not path:
        steps.append("")
    return tuple(steps)


def _quoted(path: str, begin: int) -> tuple[str, int]:
    """Read a name in backticks. Returns it and the position after the dot that follows.

    A backtick ends the name only before a dot or at the end of the path, unless a backslash precedes it.
    """
    step = ""
    part = at = begin + 1
    while True:
        at = path.find("`", at)
        escaped = path[at - 1] == "\\"
        last = at == len(path) - 1
        if at < 0 or (last and escaped):
            raise ConfigInvalid(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at "
                f"position {begin} to escape it"
            )
        if not last and path[at + 1] != ".":
            at += 1
        elif escaped:
            step += path[part : at - 1] + "`"
            part = at = at + 1
        else:
            return step + path[part:at], at + 2


def value_in_dict(value: dict[str, Any], path: tuple[str, ...]) -> Any:
    """Return the value at a path; None if a name on the way is missing.

    Raises:
        DataError: a value on the way is no dict.
    """
    inner: Any = value
    for name in path[:-1]:
        inner = inner.get(name)
        if inner is None:
            return None
        require_dict(inner, _ACCESS)
    return inner.get(path[-1])
