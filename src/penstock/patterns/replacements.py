"""Replacements in the syntax of Java's ``Matcher``: ``$1``, ``${name}``, and a backslash that escapes."""

from __future__ import annotations

from penstock.patterns import Groups, Pattern


def parse_replacement(text: str, pattern: Pattern) -> list[str | int]:
    """The texts and numbers of groups that a replacement consists of.

    Raises ValueError for what Java refuses.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        character = text[at]
        following = text[at + 1 : at + 2]
        if character not in "\\$":
            parts.append(character)
            at += 1
        elif not following:
            raise ValueError(f"the replacement ends with {character}")
        elif character == "\\":
            parts.append(following)
            at += 2
        elif following == "{":
            name, brace, _ = text[at + 2 :].partition("}")
            if not brace or name not in pattern.group_names:
                raise ValueError(f"the pattern has no group {name!r}")
            parts.append(pattern.group_names[name])
            at += len(name) + 3
        else:
            number, size = _group(text[at + 1 :], pattern.group_count)
            parts.append(number)
            at += size + 1
    return parts


def fill(parts: list[str | int], groups: Groups) -> str:
    """The text that replaces a match with these groups."""
    return "".join(part if isinstance(part, str) else groups[part] or "" for part in parts)


def _group(text: str, count: int) -> tuple[int, int]:
    """The longest number of an existing group at the beginning of a text, and how many digits it has."""
    if text[0] not in "0123456789":
        raise ValueError("$ stands before neither a number nor a name in braces")
    number, size = int(text[0]), 1
    if number > count:
        raise ValueError(f"the pattern has no group {number}")
    while text[size : size + 1] in tuple("0123456789") and number * 10 + int(text[size]) <= count:
        number = number * 10 + int(text[size])
        size += 1
    return number, size
