"""Login settings in the syntax of Java's JAAS, as Kafka has them in `sasl.jaas.config`.

They name a Java class. Nothing is loaded: a class only says which mechanism the settings are for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_MODULE: Final = re.compile(
    r"\s*(?P<name>[\w.$]+)\s+(required|requisite|sufficient|optional)\b(?P<options>.*);\s*", re.S | re.I
)
_OPTION: Final = re.compile(r'\s*([\w.$-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s";]+)', re.S)
EXPECTED: Final = '\'<login module> required username="…" password="…";\''
"""The syntax, for error messages."""


class LoginModule(NamedTuple):
    """The class of a login module and its options. ``repr`` shows no values, which may be passwords."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, {', '.join(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Parse the settings of one module.

    Raises ValueError, whose message says what was expected and never shows what was found.
    """
    match = _MODULE.fullmatch(text)
    if match is None:
        raise ValueError(EXPECTED)
    options: dict[str, str] = {}
    position = 0
    given = match["options"].rstrip()
    while position < len(given):
        option = _OPTION.match(given, position)
        if option is None:
            raise ValueError(EXPECTED)
        name, value = option.groups()
        options[name] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        position = option.end()
    return LoginModule(match["name"], options)
