"""Principals of TLS clients: `ssl.principal.mapping.rules`, as Kafka's SslPrincipalMapper applies them.

A client's principal is ``User:`` and the name in its certificate (`names`), as the first rule that matches
rewrites it::

    RULE:^CN=([^,]+),OU=Services.*$/$1/L, DEFAULT

A rule has a pattern, a replacement in which ``$1`` is the pattern's first group, and L or U for lower or
upper case. A slash in a pattern is written ``\\/``. DEFAULT takes the name as it is. If no rule matches, the
client is refused.

Names come from clients, so patterns are matched in linear time (`penstock.patterns`). Patterns that only
Java's engine knows, with backreferences or lookaround, are refused when the node starts. Java's ``.`` and
``$`` stop at more line terminators than RE2's do; a name that contains one matches no pattern here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.errors import PenstockError
from penstock.patterns import Pattern, PatternError
from penstock.patterns.replacements import fill, parse_replacement
from penstock.security.tls.errors import InvalidTls
from penstock.security.tls.names import distinguished_name, subject_of

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client without a certificate."""

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE, re.ASCII)
_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_SPACE: Final = "".join(map(chr, range(0x21)))
_ENDS_LINES: Final = re.compile("[\n\v\r\x85\u2028\u2029]")


class NoMatchingRule(PenstockError, ValueError):
    """No rule of `ssl.principal.mapping.rules` matches a name; the message has both."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule with a pattern. ``text`` is the rule as it was written, for messages."""

    text: str
    pattern: Pattern
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if _ENDS_LINES.search(name) or not self.pattern.fullmatch(name):
            return None
        replacement = _escape_references(self.replacement, self.pattern.group_count)
        parts = parse_replacement(replacement, self.pattern)
        replaced = self.pattern.replace_all(name, lambda groups: fill(parts, groups))
        return replaced.lower() if self.case == "L" else replaced.upper() if self.case == "U" else replaced


class SslPrincipals:
    """The mapping from certificates to principals. Raises InvalidTls for rules that cannot be used."""

    def __init__(self, rules: str | None = "DEFAULT") -> None:
        self._text = "DEFAULT" if rules is None else rules
        self._rules = [_parsed(each) for each in _split(self._text)]

    def principal_of(self, certificate: bytes | None) -> str:
        """The principal of a client by its certificate (DER); User:ANONYMOUS without one.

        Raises NoMatchingRule, DerError.
        """
        if certificate is None:
            return ANONYMOUS
        return f"User:{self.name_of(distinguished_name(subject_of(certificate)))}"

    def name_of(self, name: str) -> str:
        """Apply the rules to a distinguished name. Raises NoMatchingRule."""
        for rule in self._rules:
            result = name if rule is None else rule.apply(name)
            if result is not None:
                return result
        raise NoMatchingRule(
            f"no rule of 'ssl.principal.mapping.rules' matches {name!r}: found {self._text!r}"
        )


def _split(rules: str) -> list[str]:
    """The rules of a list that commas separate; commas in patterns do not."""
    return [found for match in _SPLITTER.finditer(rules.strip(_SPACE)) if (found := match[1])]


def _parsed(text: str) -> _Rule | None:
    """Parse one rule; None for DEFAULT. Raises InvalidTls."""
    match = _PARSER.match(text)
    rest = text if match is None else text[match.end() :]
    if match is None or rest:
        raise _invalid(text, f"expected RULE:pattern/replacement/, found {rest!r}")
    if match[1]:
        return None
    try:
        pattern = Pattern(match[2], captures=True)
    except PatternError as error:
        raise _invalid(text, f"{error}; patterns have the syntax of RE2") from None
    try:
        parse_replacement(_escape_references(match[3], pattern.group_count), pattern)
    except ValueError as error:
        raise _invalid(text, str(error)) from None
    return _Rule(text, pattern, match[3], match[4])


def _invalid(rule: str, reason: str) -> InvalidTls:
    return InvalidTls(f"'ssl.principal.mapping.rules' has the rule {rule!r}: {reason}")


def _escape_references(replacement: str, count: int) -> str:
    """Put a backslash before references to groups that do not exist, so that they stand for themselves.

    Offsets are those of the replacement as it was before, as in Kafka, where a second such reference
    therefore stays invalid.
    """
    if count == 0:
        return replacement
    text = replacement
    for match in _REFERENCE.finditer(replacement):
        digits = match[1]
        if digits.startswith("0"):
            continue
        number = int(digits)
        while number > count and number >= 10:
            number //= 10
        if number > count:
            text = f"{text[: match.start()]}\\{text[match.start() :]}"
    return text
