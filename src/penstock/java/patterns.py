"""Regular expressions in the syntax and with the meaning of `java.util.regex.Pattern` of Java 17.

`compile_pattern` translates them for the `regex` library, which has what Python's `re` lacks: possessive
quantifiers, intersections of classes, properties, lookbehinds of variable length, and a limit on the time.

The translation leaves nothing to the defaults of the library. Java's `\\d`, `\\w` and `\\s` are ASCII, it has
five line terminators, and flags change the meaning of what follows. So each construct becomes an explicit
class or assertion, and each literal outside letters and digits is escaped by number.

What Java refuses is refused here, except lookbehinds without an obvious maximum length, of which Java refuses
only some. These differ: a match is never between the two halves of a UTF-16 pair; `\\G` is where the search
starts, also after an empty match; groups keep nothing of branches that failed; a possessive quantifier in a
lookbehind sees nothing behind the place; and `\\R` in a group that is repeated may go back from CR LF to CR
alone. `\\b{g}` is not supported.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from functools import cache, lru_cache
from string import ascii_letters
from typing import Final

import regex

from penstock.java.properties import UNICODE_WORD, property_class

_LINE_ENDS: Final = r"\n\r\x85\u2028\u2029"
_VERTICAL: Final = r"\n\x0b\x0c\r\x85\u2028\u2029"
_HORIZONTAL: Final = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_WORD_LETTER: Final = r"\p{L}\p{Nd}"
_LITERALS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_FLAGS: Final = "idmsuxU"
_ASCII_LETTERS: Final = sorted(ascii_letters)
_CASED_BELOW: Final = 0x1F000
"""Unicode has no cased letters from here on."""
_NEVER: Final = "(?!)"
"""Matches nowhere, as a reference to a group that does not exist."""
_REFERENCE: Final = re.compile(r"\\g<(\d+)>")
_COUNT_MAX: Final = 2**31 - 1


class PatternError(ValueError):
    """The pattern is invalid; the message gives the reason and the position."""


@lru_cache(maxsize=512)
def compile_pattern(text: str) -> regex.Pattern[str]:
    """Compile a pattern in Java's syntax. Raises PatternError."""
    translated = _Translation(text).whole()
    try:
        return regex.compile(translated, regex.VERSION1)
    except (regex.error, OverflowError) as error:
        raise PatternError(f"found the pattern {text!r}, which cannot be compiled: {error}") from None


class _Translation:
    """The translation of one pattern, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = frozenset[str]()
        self._groups = 0
        self._names: dict[str, int] = {}

    def whole(self) -> str:
        made = self._alternatives()
        if self._at < len(self._text):
            raise self._error("unmatched closing )")
        return _REFERENCE.sub(lambda found: found[0] if int(found[1]) <= self._groups else _NEVER, made)

    def _error(self, reason: str) -> PatternError:
        place = f"{reason} at character {self._at}"
        return PatternError(f"found the pattern {self._text!r}, expected a regular expression: {place}")

    # Characters

    def _peek(self) -> str:
        """The next character, or an empty string at the end. The flag x skips spaces and comments."""
        if "x" in self._flags:
            self._skip_comments()
        return self._text[self._at : self._at + 1]

    def _skip_comments(self) -> None:
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter == "#":
                while self._at < len(self._text) and self._text[self._at] not in self._line_ends():
                    self._at += 1
            elif letter in " \t\n\x0b\f\r":
                self._at += 1
            else:
                return

    def _line_ends(self) -> str:
        return "\n" if "d" in self._flags else "\n\r\x85\u2028\u2029"

    def _take(self) -> str:
        letter = self._peek()
        self._at += len(letter)
        return letter

    def _accept(self, text: str) -> bool:
        self._peek()
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _digits(self, allowed: str, most: int) -> str:
        begin = self._at
        while self._at < len(self._text) and self._text[self._at] in allowed and self._at - begin < most:
            self._at += 1
        return self._text[begin : self._at]

    # Structure

    def _alternatives(self) -> str:
        """Translate up to the end of the group. Flags that are set inside end with it."""
        outside = self._flags
        made = [self._sequence()]
        while self._accept("|"):
            made.append(self._sequence())
        self._flags = outside
        return "|".join(made)

    def _sequence(self) -> str:
        made = []
        while (letter := self._peek()) and letter not in "|)":
            if letter in "*+?":
                raise self._error(f"dangling {letter}")
            atom = "" if letter == "{" else self._atom()  # Java repeats the empty text then
            made.append(self._quantified(atom) if atom is not None else "")
        return "".join(made)

    def _quantified(self, atom: str) -> str:
        """The atom with its quantifier, if any. Java accepts no second one."""
        letter = self._peek()
        if letter and letter in "*+?":
            self._at += 1
            count = letter
        elif letter == "{":
            self._at += 1
            count = self._count()
        else:
            return atom
        kind = self._peek()
        if kind and kind in "?+":
            self._at += 1
            return f"(?:{atom}){count}{kind}"
        return f"(?:{atom}){count}"

    def _count(self) -> str:
        low = self._digits("0123456789", 99)
        high: str | None = None
        if low and self._accept(","):
            high = self._digits("0123456789", 99)
        if not low or not self._accept("}"):
            raise self._error("illegal repetition")
        if max(int(low), int(high or 0)) > _COUNT_MAX or (high and int(high) < int(low)):
            raise self._error("illegal repetition range")
        return f"{{{low}}}" if high is None else f"{{{low},{high}}}"

    def _atom(self) -> str | None:
        """One unit that a quantifier may follow; None for flags and quotations that are empty."""
        letter = self._take()
        match letter:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return self._dot()
            case "^":
                return self._caret()
            case "$":
                return self._dollar()
            case "\\":
                return self._escape()
        return self._literal(letter)

    def _group(self) -> str | None:
        if not self._accept("?"):
            self._groups += 1
            return self._closed(f"({self._alternatives()}")
        for opening in (":", ">", "=", "!", "<=", "<!"):
            if self._accept(opening):
                return self._closed(f"(?{opening}{self._alternatives()}")
        if self._accept("<"):
            return self._named_group()
        return self._flagged_group()

    def _closed(self, made: str) -> str:
        if not self._accept(")"):
            raise self._error("unclosed group")
        return f"{made})"

    def _named_group(self) -> str:
        name = self._group_name()
        if name in self._names:
            raise self._error(f"group name {name} twice")
        self._groups += 1
        self._names[name] = self._groups
        return self._closed(f"(?P<{name}>{self._alternatives()}")

    def _group_name(self) -> str:
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        name = self._digits(letters, 1)
        name += self._digits(letters + "0123456789", 999) if name else ""
        if not name or not self._accept(">"):
            raise self._error("illegal group name")
        return name

    def _flagged_group(self) -> str | None:
        """`(?i)` changes the flags up to the end of the group, `(?i:…)` those of a group of its own."""
        outside = self._flags
        flags = set(outside)
        is_on = True
        while (letter := self._take()) and letter not in ":)":
            if letter == "-" and is_on:
                is_on = False
            elif letter not in _FLAGS:
                raise self._error(f"unknown inline modifier {letter}")
            elif is_on:
                flags |= {letter, "u"} if letter == "U" else {letter}
            else:
                flags -= {letter, "u"} if letter == "U" else {letter}
        if not letter:
            raise self._error("unclosed group")
        self._flags = frozenset(flags)
        if letter == ")":
            return None
        made = self._closed(f"(?:{self._alternatives()}")
        self._flags = outside
        return made

    # Atoms

    def _dot(self) -> str:
        if "s" in self._flags:
            return r"[\s\S]"
        return r"[^\n]" if "d" in self._flags else f"[^{_LINE_ENDS}]"

    def _caret(self) -> str:
        if "m" not in self._flags:
            return r"\A"
        # Even where the text is empty, this does not match at its end.
        if "d" in self._flags:
            return r"(?:\A|(?<=\n))(?!\Z)"
        return r"(?:\A|(?<=\r(?!\n)|[\n\x85\u2028\u2029]))(?!\Z)"

    def _dollar(self) -> str:
        if "m" not in self._flags:
            return self._before_last_line_end()
        return r"(?=\n|\Z)" if "d" in self._flags else r"(?=(?<!\r)\n|[\r\x85\u2028\u2029]|\Z)"

    def _before_last_line_end(self) -> str:
        """The end, or the place before a line terminator at the end."""
        if "d" in self._flags:
            return r"(?=\n?\Z)"
        return r"(?=(?:(?<!\r)\n|\r\n?|[\x85\u2028\u2029])?\Z)"

    def _literal(self, letter: str) -> str:
        members = self._range(letter, letter)
        return members if len(members) == len(_escaped(letter)) else f"[{members}]"

    def _escape(self) -> str | None:
        """Translate what follows a backslash outside a class."""
        letter = self._text[self._at : self._at + 1]
        self._at += 1
        match letter:
            case "Q":
                return self._quotation()
            case "E":
                raise self._error("\\E without \\Q")
            case "A":
                return r"\A"
            case "z":
                return r"\Z"
            case "Z":
                return self._before_last_line_end()
            case "G":
                return r"\G"
            case "b" | "B":
                return self._boundary(letter)
            case "R":
                return self._line_break()
            case "X":
                return r"\X"
            case "k":
                return self._named_reference()
        if letter and letter in "123456789":
            return self._reference(letter)
        members = self._class_escape(letter)
        return self._literal(self._escaped_literal(letter)) if members is None else f"[{members}]"

    def _line_break(self) -> str:
        """One line break. Java never takes a repeated one back from CR LF to CR alone."""
        is_repeated = self._text[self._at : self._at + 1] in tuple("*+?{")
        return f"({'?>' if is_repeated else '?:'}\\r\\n|[{_VERTICAL}])"

    def _quotation(self) -> str | None:
        end = self._text.find("\\E", self._at)
        quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
        self._at = len(self._text) if end < 0 else end + 2
        if not quoted:
            return None
        # A quantifier that follows belongs to the last character.
        *before, last = (self._literal(letter) for letter in quoted)
        return f"{''.join(before)}{self._quantified(last)}" if before else last

    def _boundary(self, letter: str) -> str:
        if self._accept("{g}"):
            raise self._error("\\b{g} is not supported")
        word = rf"[{_WORD_LETTER}_]"
        mark = rf"(?<=[{_WORD_LETTER}]\p{{Mn}}*)\p{{Mn}}"
        if "U" in self._flags:
            word = f"[{UNICODE_WORD}]"
        before, after = rf"(?<={word}|[{_WORD_LETTER}]\p{{Mn}}+)", f"(?={word}|{mark})"
        not_before, not_after = before.replace("(?<=", "(?<!", 1), after.replace("(?=", "(?!", 1)
        if letter == "b":
            return f"(?:{before}{not_after}|{not_before}{after})"
        return f"(?:{before}{after}|{not_before}{not_after})"

    def _reference(self, digit: str) -> str:
        """A group's number has as many digits as there are groups up to here."""
        number = int(digit)
        while (more := self._text[self._at : self._at + 1]) and more in "0123456789":
            if number * 10 + int(more) > self._groups:
                break
            number = number * 10 + int(more)
            self._at += 1
        return self._referred(number)

    def _named_reference(self) -> str:
        if not self._accept("<"):
            raise self._error("\\k without a group name")
        name = self._group_name()
        if name not in self._names:
            raise self._error(f"unknown group {name}")
        return self._referred(self._names[name])

    def _referred(self, number: int) -> str:
        made = f"(?:\\g<{number}>)"
        return f"(?i-f:{made})" if "i" in self._flags else made

    # Classes

    def _class(self) -> str:
        """The members of a class in brackets, as those of a class of the library."""
        is_negated = self._accept("^")
        operands = [self._operand(may_begin=True)]
        while self._accept("&&"):
            operands.append(self._operand(may_begin=False))
        if not self._accept("]"):
            raise self._error("unclosed character class")
        given = [each for each in operands if each]
        if not given:
            raise self._error("empty character class")
        members = given[0] if len(given) == 1 else "&&".join(f"[{each}]" for each in given)
        return f"[^{members}]" if is_negated else f"[{members}]"

    def _operand(self, *, may_begin: bool) -> str:
        """The union of members up to `&&` or the closing bracket."""
        members: list[str] = []
        while letter := self._peek():
            if self._text.startswith("&&", self._at):
                if not (may_begin and not members):
                    break
                while self._accept("&&"):
                    pass
                continue
            if letter == "]" and (members or not may_begin):
                break
            if letter == "[":
                self._at += 1
                members.append(self._class())
            else:
                members.append(self._member())
        return "".join(members)

    def _member(self) -> str:
        """A character, a range, or a class that is escaped."""
        low = self._member_literal()
        if len(low) != 1:
            return low
        if self._peek() == "-":
            end = self._text[self._at + 1 : self._at + 2]
            if end and end not in "][":
                self._at += 1
                high = self._member_literal()
                if len(high) != 1 or high < low:
                    raise self._error("illegal character range")
                return self._range(low, high)
        return self._range(low, low)

    def _member_literal(self) -> str:
        """The next character itself, or what an escape stands for, in the form of members of a class."""
        letter = self._take()
        if letter != "\\":
            return letter
        letter = self._text[self._at : self._at + 1]
        self._at += 1
        if letter == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
            self._at = len(self._text) if end < 0 else end + 2
            return quoted if len(quoted) == 1 else "".join(self._range(each, each) for each in quoted)
        members = self._class_escape(letter)
        return self._escaped_literal(letter) if members is None else f"[{members}]"

    def _range(self, low: str, high: str) -> str:
        """A range, with the other cases of its letters: of ASCII if the flag i is set, of all with i and u.

        The library's own flag would also change the properties of other parts of the pattern.
        """
        made = _escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}"
        if "i" not in self._flags:
            return made
        cased = _cased_letters() if "u" in self._flags else _ASCII_LETTERS
        inside = cased[bisect_left(cased, low) : bisect_right(cased, high)]
        others = {other for letter in inside for other in _cases(letter)} - set(inside)
        return made + "".join(map(_escaped, sorted(others)))

    def _class_escape(self, letter: str) -> str | None:
        """The members of a predefined class, or None if the letter names no class."""
        is_unicode = "U" in self._flags
        match letter.lower():
            case "d":
                members = r"\p{Nd}" if is_unicode else "0-9"
            case "w":
                members = UNICODE_WORD if is_unicode else "a-zA-Z0-9_"
            case "s":
                members = r"\p{White_Space}" if is_unicode else r" \t\n\x0b\x0c\r"
            case "h":
                members = _HORIZONTAL
            case "v":
                members = _VERTICAL
            case "p":
                members = self._property()
            case _:
                return None
        if letter.islower():
            return members
        return members.removeprefix("^") if members.startswith("^") else f"^{members}"

    def _property(self) -> str:
        name = self._text[self._at : self._at + 1]
        self._at += 1
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise self._error("unclosed character family")
            name, self._at = self._text[self._at : end], end + 1
        members = property_class(name, self._flags) if name else None
        if members is None:
            raise self._error(f"unknown character property name {{{name}}}")
        return members

    def _escaped_literal(self, letter: str) -> str:
        """The character that an escape stands for."""
        if letter in _LITERALS:
            return _LITERALS[letter]
        match letter:
            case "0":
                return self._octal()
            case "x":
                return self._hexadecimal()
            case "u":
                return self._utf16()
            case "c":
                control = self._text[self._at : self._at + 1]
                self._at += 1
                if control:
                    return chr(ord(control) ^ 64)
            case "N":
                return self._named_character()
        if not letter or (letter.isascii() and letter.isalnum()):
            raise self._error("illegal escape sequence")
        return letter

    def _octal(self) -> str:
        digits = self._digits("01234567", 3)
        if digits and (len(digits) < 3 or digits[0] <= "3"):
            return chr(int(digits, 8))
        if len(digits) == 3:
            self._at -= 1
            return chr(int(digits[:2], 8))
        raise self._error("illegal octal escape sequence")

    def _hexadecimal(self) -> str:
        if self._accept("{"):
            digits = self._digits("0123456789abcdefABCDEF", 99)
            if digits and self._accept("}") and int(digits, 16) <= 0x10FFFF:
                return chr(int(digits, 16))
        elif len(digits := self._digits("0123456789abcdefABCDEF", 2)) == 2:
            return chr(int(digits, 16))
        raise self._error("illegal hexadecimal escape sequence")

    def _utf16(self) -> str:
        code = self._unit()
        if 0xD800 <= code < 0xDC00 and self._text.startswith("\\u", self._at):
            begin = self._at
            self._at += 2
            low = self._unit()
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00)
            self._at = begin
        return chr(code)

    def _unit(self) -> int:
        digits = self._digits("0123456789abcdefABCDEF", 4)
        if len(digits) < 4:
            raise self._error("illegal Unicode escape sequence")
        return int(digits, 16)

    def _named_character(self) -> str:
        end = self._text.find("}", self._at)
        if not self._accept("{") or end < 0:
            raise self._error("illegal character name escape sequence")
        name, self._at = self._text[self._at : end], end + 1
        try:
            return unicodedata.lookup(name)
        except KeyError:
            raise self._error(f"unknown character name {name}") from None


def _escaped(letter: str) -> str:
    """A character as it may stand anywhere in a pattern of the library."""
    if letter.isascii() and letter.isalnum():
        return letter
    return f"\\x{ord(letter):02x}" if letter <= "\xff" else f"\\U{ord(letter):08x}"


@cache
def _cased_letters() -> list[str]:
    """All letters that have another case, in order."""
    return [letter for letter in map(chr, range(_CASED_BELOW)) if _cases(letter) - {letter}]


def _cases(letter: str) -> set[str]:
    """The cases of a character that are single characters."""
    upper, lower = letter.upper(), letter.lower()
    return {each for each in (upper, lower, upper.lower()) if len(each) == 1}
