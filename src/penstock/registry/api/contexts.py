"""Rewrite `/contexts/{context}/…` to the rest of the path, with the context written into its subjects.

This way every resource has only one path. A subject, or a prefix of subjects, that already names a context
keeps it. The functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.registry.subjects import RequestRefused

_CONTEXTS: Final = "contexts"
_NAMES_CONTEXT: Final = (":.", ":*:")
# The segment after one of these is a subject. The second group counts only as the first segment.
_BEFORE_SUBJECT: Final = "subjects"
_BEFORE_SUBJECT_FIRST: Final = ("config", "mode")

Query = tuple[tuple[str, str], ...]


def rewritten(segments: Sequence[str], query: Query) -> tuple[list[str], Query]:
    """Rewrite the decoded segments and query of a path. Raises RequestRefused for an invalid context."""
    if len(segments) < 2 or segments[0] != _CONTEXTS:
        return list(segments), query
    context, rest = qualifier(segments[1]), list(segments[2:])
    if not rest:
        return [_CONTEXTS, context or ":.:"], query
    rest = _with_subject(rest, context)
    return rest, _with_query(rest, query, context)


def qualifier(context: str) -> str:
    """Return the prefix of a context's subjects; empty for the default one.

    Raises RequestRefused if the name contains a colon.
    """
    name = context.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise RequestRefused(400, f"Context name '{name}' cannot contain a colon")
    name = name if name.startswith(".") else f".{name}"
    return "" if name == "." else f":{name}:"


def _with_subject(segments: list[str], context: str) -> list[str]:
    found: list[str] = []
    is_subject = False
    for index, segment in enumerate(segments):
        found.append(_qualified(segment, context) if is_subject else segment)
        before = segment == _BEFORE_SUBJECT or (index == 0 and segment in _BEFORE_SUBJECT_FIRST)
        is_subject = before and not is_subject
    if len(segments) == 1 and segments[0] in _BEFORE_SUBJECT_FIRST and context:
        found.append(context)
    return found


def _with_query(segments: list[str], query: Query, context: str) -> Query:
    if segments[:2] == ["schemas", "ids"]:
        return _with_parameter(query, "subject", context)
    if segments in (["schemas"], ["subjects"]):
        return _with_parameter(query, "subjectPrefix", context)
    return query


def _with_parameter(query: Query, name: str, context: str) -> Query:
    values = [value for key, value in query if key == name] or [""]
    others = tuple((key, value) for key, value in query if key != name)
    return others + tuple((name, _qualified(value, context)) for value in values)


def _qualified(subject: str, context: str) -> str:
    return subject if subject.startswith(_NAMES_CONTEXT) else context + subject
