"""Regular expressions sent by clients, matched in time linear in the length of the text.

Clients send patterns over the wire. A broker that matched them by backtracking, as Python's `re` does, could
be blocked for hours by `(a+)+b`. Kafka uses RE2 for that reason, and this module follows the same idea: a
pattern becomes a non-deterministic automaton (Thompson, 1968), whose reachable sets of states are computed as
needed and cached.

The syntax is RE2's without captures: literals, `.`, classes, groups, alternatives, repetitions (greedy and
lazy ones are equal, since only whole matches count), `^`, `$`, `\\A`, `\\z`, and the flags `i` and `s` at the
beginning. Not supported are `\\b`, `\\p{…}` and, as in RE2, backreferences and lookaround.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

__all__ = ["Pattern", "PatternError"]

MAX_REPEAT: Final = 1_000
"""The highest number of repetitions; RE2 has the same limit."""
MAX_NODES: Final = 20_000
"""Limits the size of a pattern's automaton, and so the work per character."""
MAX_KEPT_STATES: Final = 1_000
"""Limits the memory of a pattern's cached states."""


class PatternError(ValueError):
    """The pattern is invalid; the message gives the reason and the position."""


Ranges: TypeAlias = tuple[tuple[int, int], ...]


# -- the parts of a pattern --------------------------------------------------------------------------


class _Characters(NamedTuple):
    """One character within ranges of code points."""

    ranges: Ranges
    ignores_case: bool = False

    def has(self, character: str) -> bool:
        same = {character, character.lower(), character.upper()} if self.ignores_case else {character}
        return any(low <= ord(each) <= high for each in same if len(each) == 1 for low, high in self.ranges)


class _Sequence(NamedTuple):
    items: list[_Item]


class _Alternatives(NamedTuple):
    items: list[_Item]


class _Repeat(NamedTuple):
    item: _Item
    least: int
    most: int | None


class _Edge(NamedTuple):
    """The beginning or the end of the text."""

    is_end: bool


_Item: TypeAlias = _Characters | _Sequence | _Alternatives | _Repeat | _Edge

_LAST: Final = 0x10FFFF
_CLASSES: Final[dict[str, Ranges]] = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 10), (12, 13), (32, 32)),
}
_POSIX: Final = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "digit": string.digits,
    "lower": string.ascii_lowercase,
    "punct": string.punctuation,
    "space": string.whitespace,
    "upper": string.ascii_uppercase,
    "word": string.ascii_letters + string.digits + "_",
    "xdigit": string.hexdigits,
}
_ESCAPES: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _only(characters: str) -> Ranges:
    return tuple((ord(character), ord(character)) for character in characters)


def _all_but(ranges: Iterable[tuple[int, int]]) -> Ranges:
    gaps, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    return (*gaps, (start, _LAST)) if start <= _LAST else tuple(gaps)


def _class(letter: str) -> Ranges | None:
    ranges = _CLASSES.get(letter.lower())
    return _all_but(ranges) if ranges is not None and letter.isupper() else ranges


class _Parser:
    """A recursive descent parser of one pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._ignores_case = False
        self._dot_takes_newline = False

    def parse(self) -> _Item:
        self._flags()
        item = self._alternatives()
        if self._position < len(self._text):
            raise self._error("unexpected )")
        return item

    def _error(self, what: str) -> PatternError:
        return PatternError(f"{what} at position {self._position}")

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise self._error("unexpected end")
        self._position += 1
        return character

    def _skip(self, expected: str) -> bool:
        if self._text.startswith(expected, self._position):
            self._position += len(expected)
            return True
        return False

    def _flags(self) -> None:
        end = self._text.find(")")
        flags = self._text[2:end]
        if self._text.startswith("(?") and end > 2 and set(flags) <= {"i", "s"}:
            self._ignores_case, self._dot_takes_newline = "i" in flags, "s" in flags
            self._position = end + 1

    def _alternatives(self) -> _Item:
        items = [self._sequence()]
        while self._skip("|"):
            items.append(self._sequence())
        return items[0] if len(items) == 1 else _Alternatives(items)

    def _sequence(self) -> _Item:
        items: list[_Item] = []
        while self._peek() not in ("", "|", ")"):
            items.append(self._repeated())
        return _Sequence(items)

    def _repeated(self) -> _Item:
        item = self._atom()
        count = self._count()
        if count is None:
            return item
        self._skip("?")
        if self._count() is not None:
            raise self._error("repetition of a repetition")
        return _Repeat(item, *count)

    def _count(self) -> tuple[int, int | None] | None:
        """Read the least and the most repetitions of the previous atom; None as the most means no limit."""
        for sign, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(sign):
                return count
        match = re.compile(r"\{(\d+)(,?)(\d*)\}").match(self._text, self._position)
        if match is None:
            return None
        least = int(match[1])
        most = int(match[3]) if match[3] else None if match[2] else least
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self._error("bad number of repetitions")
        self._position = match.end()
        return least, most

    def _atom(self) -> _Item:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return _Characters(self._bracket(), self._ignores_case)
            case ".":
                return _Characters(((0, _LAST),) if self._dot_takes_newline else _all_but(_only("\n")))
            case "^" | "$":
                return _Edge(is_end=character == "$")
            case "*" | "+" | "?":
                raise self._error("nothing to repeat")
            case "\\" if self._peek() in ("A", "z"):
                return _Edge(is_end=self._next() == "z")
            case "\\":
                return _Characters(self._escape(), self._ignores_case)
        return _Characters(_only(character), self._ignores_case)

    def _group(self) -> _Item:
        if self._skip("?") and not self._skip(":"):
            name = re.compile(r"P?<\w+>").match(self._text, self._position)
            if name is None:
                raise self._error("unsupported group")
            self._position = name.end()
        item = self._alternatives()
        if not self._skip(")"):
            raise self._error("missing )")
        return item

    def _escape(self) -> Ranges:
        """Read the characters that an escape sequence stands for, after its backslash."""
        character = self._next()
        ranges = _class(character)
        if ranges is not None:
            return ranges
        if character in _ESCAPES:
            return _only(_ESCAPES[character])
        if character == "x":
            code = re.compile(r"[0-9a-fA-F]{2}|\{([0-9a-fA-F]{1,6})\}").match(self._text, self._position)
            if code is None or int(code[1] or code[0], 16) > _LAST:
                raise self._error("bad character code")
            self._position = code.end()
            return _only(chr(int(code[1] or code[0], 16)))
        if character.isalnum():
            raise self._error(f"\\{character} is not supported")
        return _only(character)

    def _bracket(self) -> Ranges:
        negated = self._skip("^")
        ranges: list[tuple[int, int]] = []
        while not ranges or self._peek() != "]":  # a leading ] is a literal
            ranges += self._bracket_item()
        self._position += 1
        return _all_but(ranges) if negated else tuple(ranges)

    def _bracket_item(self) -> Ranges:
        posix = re.compile(r"\[:(\w+):\]").match(self._text, self._position)
        if posix is not None:
            if posix[1] not in _POSIX:
                raise self._error(f"unknown class {posix[1]}")
            self._position = posix.end()
            return _only(_POSIX[posix[1]])
        low = self._bracket_end()
        if (
            len(low) > 1
            or not self._text.startswith("-", self._position)
            or self._text[self._position + 1 :][:1] in ("", "]")
        ):
            return low
        self._position += 1
        high = self._bracket_end()
        if len(high) > 1 or high[0][0] < low[0][0]:
            raise self._error("bad range of characters")
        return ((low[0][0], high[0][0]),)

    def _bracket_end(self) -> Ranges:
        character = self._next()
        return self._escape() if character == "\\" else _only(character)


# -- the automaton -----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Node:
    """A node of the automaton, which takes one character to move to `after`.

    A node without characters takes none: it reaches `after` at once, provided that the text is at its edge.
    """

    characters: _Characters | None
    after: list[_Node]
    edge: _Edge | None = None


@dataclass(slots=True)
class _Builder:
    """Builds the automaton from the end of the pattern to its beginning, so each item gets its successor."""

    count: int = 0

    def node(self, characters: _Characters | None, after: list[_Node], edge: _Edge | None = None) -> _Node:
        self.count += 1
        if self.count > MAX_NODES:
            raise PatternError("the pattern is too large")
        return _Node(characters, after, edge)

    def build(self, item: _Item, after: _Node) -> _Node:
        match item:
            case _Characters():
                return self.node(item, [after])
            case _Edge():
                return self.node(None, [after], item)
            case _Alternatives():
                return self.node(None, [self.build(each, after) for each in item.items])
            case _Sequence():
                for each in reversed(item.items):
                    after = self.build(each, after)
                return after
        return self._repeat(item, after)

    def _repeat(self, item: _Repeat, after: _Node) -> _Node:
        if item.most is None:
            first = self.node(None, [after])
            first.after.append(self.build(item.item, first))
        else:
            first = after
            for _ in range(item.most - item.least):
                first = self.node(None, [self.build(item.item, first), after])
        for _ in range(item.least):
            first = self.build(item.item, first)
        return first


@dataclass(slots=True, eq=False)
class _State:
    """A set of nodes that the automaton may be in, before it follows those that take no character."""

    nodes: frozenset[_Node]
    is_start: bool
    next: dict[str, _State] = field(default_factory=dict)


class Pattern:
    """A compiled pattern, to be used by one thread at a time. Creating it may raise PatternError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._end = _Node(None, [])
        try:
            first = _Builder().build(_Parser(text).parse(), self._end)
        except RecursionError:
            raise PatternError("the pattern is nested too deeply") from None
        self._start = _State(frozenset({first}), is_start=True)
        self._states: dict[frozenset[_Node], _State] = {}

    def fullmatch(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        state = self._start
        for character in text:
            after = state.next.get(character)
            if after is None:
                after = self._step(state, character)
            state = after
            if not state.nodes:
                return False
        return self._end in _reached(state.nodes, at_start=state.is_start, at_end=True)

    def _step(self, state: _State, character: str) -> _State:
        if len(self._states) >= MAX_KEPT_STATES:  # the pattern keeps finding new states: start the cache over
            self._states.clear()
            self._start.next.clear()
        nodes = frozenset(
            after
            for node in _reached(state.nodes, at_start=state.is_start, at_end=False)
            if node.characters is not None and node.characters.has(character)
            for after in node.after
        )
        following = self._states.setdefault(nodes, _State(nodes, is_start=False))
        state.next[character] = following
        return following


def _reached(nodes: Iterable[_Node], *, at_start: bool, at_end: bool) -> set[_Node]:
    """The nodes reachable from these without taking a character, themselves included."""
    found: set[_Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        if node.characters is None and (node.edge is None or (at_end if node.edge.is_end else at_start)):
            waiting += node.after
    return found
