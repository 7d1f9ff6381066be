"""Short names of Kerberos principals: `sasl.kerberos.principal.to.local.rules`, as Kafka applies them.

The first rule that applies makes the name of a client's user out of its principal::

    RULE:[2:$1@$0](.*@EXAMPLE\\.COM)s/@.*//L, DEFAULT

``[2:$1@$0]`` applies to principals of two components and composes a text of the realm ($0) and the
components. If a pattern in parentheses follows, it must match the whole text. ``s/pattern/replacement/``
replaces the first match, or each with ``g``, and L or U changes the case. DEFAULT takes the first component
of a principal in the default realm. A result that contains ``/`` or ``@`` ends the search, and the client is
refused.

Principals come from clients, so patterns are matched in linear time (`penstock.patterns`). Java's ``.`` and
``$`` stop at more line terminators than RE2's do; a rule with a pattern does not apply to a text with one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.patterns import Pattern, PatternError
from penstock.patterns.replacements import fill, parse_replacement
from penstock.security.kerberos.names import KerberosName

_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<count>\d*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?",
    re.ASCII,
)
_PARAMETER: Final = re.compile(r"([^$]*)(?:\$([0-9]*))?")
_NOT_SIMPLE: Final = re.compile("[/@]")
_ENDS_LINES: Final = re.compile("[\n\v\f\r\x85\u2028\u2029]")
_INT_MAX: Final = 2**31 - 1


class NoShortName(Exception):
    """The rules give a principal no short name; the message has Kafka's reason."""


@dataclass(frozen=True, slots=True)
class _Substitution:
    pattern: Pattern
    parts: list[str | int]
    is_repeated: bool

    def apply(self, text: str) -> str:
        replace = self.pattern.replace_all if self.is_repeated else self.pattern.replace_first
        return replace(text, lambda groups: fill(self.parts, groups))


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule. ``text`` is the rule as Kafka prints it."""

    text: str
    component_count: int | None
    """The number of components of the principals that it applies to; None for DEFAULT."""
    format: str
    match: Pattern | None
    substitution: _Substitution | None
    case: str

    def apply(self, default_realm: str, parameters: Sequence[str]) -> str | None:
        """The short name; None if the rule does not apply. Raises NoShortName."""
        result = self._result(default_realm, parameters)
        if result is None:
            return None
        if _NOT_SIMPLE.search(result):
            raise NoShortName(f"Non-simple name {result} after auth_to_local rule {self.text}")
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result

    def _result(self, default_realm: str, parameters: Sequence[str]) -> str | None:
        if self.component_count is None:
            return parameters[1] if parameters[0] == default_realm else None
        if self.component_count != len(parameters) - 1:
            return None
        base = _composed(self.format, parameters)
        has_patterns = self.match is not None or self.substitution is not None
        if has_patterns and _ENDS_LINES.search(base):
            return None
        if self.match is not None and not self.match.fullmatch(base):
            return None
        return base if self.substitution is None else self.substitution.apply(base)


class ShortNames:
    """The rules of a listener. Raises ValueError for rules that cannot be used."""

    def __init__(self, default_realm: str, rules: Iterable[str]) -> None:
        self._default_realm = default_realm
        self._rules = [_parsed(rule) for rule in rules]

    def of(self, name: KerberosName) -> str:
        """Return the short name of a principal. Raises NoShortName."""
        if name.realm is None:
            return name.service
        host = () if name.host is None else (name.host,)
        for rule in self._rules:
            result = rule.apply(self._default_realm, (name.realm, name.service, *host))
            if result is not None:
                return result
        rules = ", ".join(rule.text for rule in self._rules)
        raise NoShortName(f"No rules apply to {name}, rules [{rules}]")


def _parsed(text: str) -> _Rule:
    found = _RULE.match(text)
    if found is None:
        raise ValueError(f"Invalid rule: {text}")
    if rest := text[found.end() :]:
        raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{rest}`")
    if found["default"]:
        return _Rule("DEFAULT", None, "", None, None, "")
    if not found["count"] or int(found["count"]) > _INT_MAX:
        raise ValueError(f"Invalid rule: {text}: expected a number of components after [")
    try:
        match = None if found["match"] is None else Pattern(found["match"])
        substitution = None if found["old"] is None else _substitution(found)
    except PatternError as error:
        raise ValueError(f"Invalid rule: {text}: {error}; patterns have the syntax of RE2") from None
    except ValueError as error:
        raise ValueError(f"Invalid rule: {text}: {error}") from None
    return _Rule(
        _as_printed(found), int(found["count"]), found["format"], match, substitution, found["case"] or ""
    )


def _substitution(found: re.Match[str]) -> _Substitution:
    pattern = Pattern(found["old"], captures=True)
    return _Substitution(pattern, parse_replacement(found["new"], pattern), found["all"] is not None)


def _as_printed(found: re.Match[str]) -> str:
    match = "" if found["match"] is None else f"({found['match']})"
    replaced = "" if found["old"] is None else f"s/{found['old']}/{found['new']}/{found['all'] or ''}"
    case = "" if found["case"] is None else f"/{found['case']}"
    return f"RULE:[{int(found['count'])}:{found['format']}]{match}{replaced}{case}"


def _composed(text: str, parameters: Sequence[str]) -> str:
    """Replace ``$n`` by the parameters. Raises NoShortName."""
    parts = []
    for literal, digits in (match.groups() for match in _PARAMETER.finditer(text)):
        parts.append(literal)
        if digits is None:
            continue
        if not digits or int(digits) > _INT_MAX:
            raise NoShortName(f"bad format in username mapping in {digits}")
        if int(digits) >= len(parameters):
            raise NoShortName(
                f"index {int(digits)} from {text} is outside of the valid range 0 to {len(parameters) - 1}"
            )
        parts.append(parameters[int(digits)])
    return "".join(parts)
