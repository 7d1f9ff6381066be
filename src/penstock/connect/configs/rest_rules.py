"""Validate a worker's keys of its REST API: listeners, and headers that are added to responses."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.connect.definitions.config_types import SPACE
from penstock.connect.definitions.validators import DescribedValidator
from penstock.connect.errors import ConfigInvalid

EXAMPLE: Final = "ex: http://localhost:8080,https://localhost:8443"
ACTIONS: Final = ("set", "add", "setDate", "addDate")
SPACES: Final = re.compile(r"[ \t\n\x0b\f\r]+")


def check_listeners(_name: str, value: Any) -> None:
    if value is None:
        found = f"Invalid value type for listeners (expected list of URLs , {EXAMPLE})."
        raise ConfigInvalid(found)
    if not value:
        raise ConfigInvalid(f"Invalid value for listeners, at least one URL is expected, {EXAMPLE}.")
    if any(not url.strip() for url in value):
        raise ConfigInvalid("Empty URL found when parsing listeners list.")


LISTENERS_VALIDATOR: Final = DescribedValidator(check_listeners, f"List of comma-separated URLs, {EXAMPLE}.")


def check_response_headers(_name: str, value: Any) -> None:
    if value is not None and value.strip():
        for rule in split_quoted(value):
            check_header_rule(rule)


RESPONSE_HEADERS_VALIDATOR: Final = DescribedValidator(
    check_response_headers,
    "Comma-separated header rules, where each header rule is of the form "
    "'[action] [header name]:[header value]' and optionally "
    "surrounded by double quotes if any part of a header rule contains a comma",
)


def split_quoted(text: str) -> list[str]:
    """Split at commas outside double quotes, and remove white space and quotes (Jetty's csvSplit)."""
    parts: list[str] = []
    part: list[str] = []
    blanks = ""
    state = "before"
    for letter in text:
        match state:
            case "before" if letter == '"':
                state = "quoted"
            case "quoted" if letter == "\\":
                state = "escaped"
            case "quoted" if letter == '"':
                parts.append("".join(part))
                part, state = [], "after"
            case "quoted" | "escaped":
                part.append(letter)
                state = "quoted"
            case "after" if letter == ",":
                state = "before"
            case "after":
                pass
            case _ if letter == ",":
                parts.append("".join(part))
                part, blanks, state = [], "", "before"
            case _ if letter <= " ":
                blanks += letter if part else ""
            case _:
                part.append(blanks + letter)
                blanks, state = "", "plain"
    if state in ("quoted", "escaped", "plain"):
        parts.append("".join(part))
    return parts


def check_header_rule(rule: str) -> None:
    """Check a rule such as ``add Cache-Control: no-cache``.

    Raises:
        ConfigInvalid: an action that is unknown, or no name and value.
    """
    words = SPACES.split(rule.strip(SPACE), maxsplit=1)
    if len(words) != 2:
        expected = "Expected: '[action] [header name]:[header value]'"
        raise ConfigInvalid(f"Invalid format of header config '{rule}'. {expected}")
    action, header = words
    if action.lower() not in map(str.lower, ACTIONS):
        expected = f"Expected one of [{', '.join(ACTIONS)}]"
        raise ConfigInvalid(f"Invalid header config action: '{action}'. {expected}")
    if len(parts := header.strip(SPACE).rstrip(":").split(":")) != 2:
        expected = "Expected: '[header name]:[header value]'"
        raise ConfigInvalid(f"Invalid format of header name and header value pair '{header}'. {expected}")
    name = parts[0].strip(SPACE)
    if not name or SPACES.search(name):
        expected = "The '[header name]' cannot contain whitespace"
        raise ConfigInvalid(f"Invalid header name '{name}'. {expected}")
