r"""The properties of characters that Java's patterns name, such as \p{Lu}, \p{Alpha} and \p{IsGreek}.

Each becomes the members of a class of the `regex` library, whose own names cover scripts, blocks and general
categories. Java's POSIX classes are ASCII unless the flag U is set.
"""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from typing import Final

import regex

_ASCII: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\x5b-`\x7b-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t-\r",
}
UNICODE_WORD: Final = r"\p{Alphabetic}\p{Mn}\p{Me}\p{Mc}\p{Nd}\p{Pc}\p{Join_Control}"
_UNICODE: Final = {
    "ALPHABETIC": r"\p{Alphabetic}",
    "LETTER": r"\p{L}",
    "IDEOGRAPHIC": r"\p{Ideographic}",
    "LOWERCASE": r"\p{Lowercase}",
    "UPPERCASE": r"\p{Uppercase}",
    "TITLECASE": r"\p{Lt}",
    "WHITE_SPACE": r"\p{White_Space}",
    "WHITESPACE": r"\p{White_Space}",
    "CONTROL": r"\p{Cc}",
    "PUNCTUATION": r"\p{P}",
    "HEX_DIGIT": r"\p{Nd}\p{Hex_Digit}",
    "HEXDIGIT": r"\p{Nd}\p{Hex_Digit}",
    "ASSIGNED": r"^\p{Cn}",
    "NONCHARACTER_CODE_POINT": r"\p{Noncharacter_Code_Point}",
    "NONCHARACTERCODEPOINT": r"\p{Noncharacter_Code_Point}",
    "DIGIT": r"\p{Nd}",
    "ALNUM": r"\p{Alphabetic}\p{Nd}",
    "BLANK": r"\p{Zs}\t",
    "GRAPH": r"^\p{White_Space}\p{Cc}\p{Cs}\p{Cn}",
    "PRINT": r"[^\p{White_Space}\p{Cc}\p{Cs}\p{Cn}]\p{Zs}",
    "WORD": UNICODE_WORD,
    "JOIN_CONTROL": r"\p{Join_Control}",
    "JOINCONTROL": r"\p{Join_Control}",
}
_POSIX_IN_UNICODE: Final = {
    "ALPHA": "ALPHABETIC",
    "LOWER": "LOWERCASE",
    "UPPER": "UPPERCASE",
    "SPACE": "WHITE_SPACE",
    "PUNCT": "PUNCTUATION",
    "XDIGIT": "HEX_DIGIT",
    "ALNUM": "ALNUM",
    "CNTRL": "CONTROL",
    "DIGIT": "DIGIT",
    "BLANK": "BLANK",
    "GRAPH": "GRAPH",
    "PRINT": "PRINT",
}
_IGNORABLE: Final = r"\x00-\x08\x0e-\x1b\x7f-\x9f\p{Cf}"
_IDENTIFIER_PART: Final = rf"\p{{L}}\p{{Nl}}\p{{Pc}}\p{{Nd}}\p{{Mc}}\p{{Mn}}{_IGNORABLE}"
_CATEGORIES: Final = {
    **_ASCII,
    "L1": r"\x00-\xff",
    "all": r"\s\S",
    "LC": r"\p{Lu}\p{Ll}\p{Lt}",
    "LD": r"\p{L}\p{Nd}",
    "javaLowerCase": r"\p{Lowercase}",
    "javaUpperCase": r"\p{Uppercase}",
    "javaAlphabetic": r"\p{Alphabetic}",
    "javaIdeographic": r"\p{Ideographic}",
    "javaTitleCase": r"\p{Lt}",
    "javaDigit": r"\p{Nd}",
    "javaDefined": r"^\p{Cn}",
    "javaLetter": r"\p{L}",
    "javaLetterOrDigit": r"\p{L}\p{Nd}",
    "javaJavaIdentifierStart": r"\p{L}\p{Nl}\p{Sc}\p{Pc}",
    "javaJavaIdentifierPart": rf"{_IDENTIFIER_PART}\p{{Sc}}",
    "javaUnicodeIdentifierStart": r"\p{L}\p{Nl}\p{Other_ID_Start}",
    "javaUnicodeIdentifierPart": rf"{_IDENTIFIER_PART}\p{{Other_ID_Start}}\p{{Other_ID_Continue}}",
    "javaIdentifierIgnorable": _IGNORABLE,
    "javaSpaceChar": r"\p{Z}",
    "javaWhitespace": r"\t-\r\x1c-\x1f[\p{Z}--[\xa0\u2007\u202f]]",
    "javaISOControl": r"\x00-\x1f\x7f-\x9f",
    "javaMirrored": r"\p{Bidi_Mirrored}",
}
_GENERAL: Final = frozenset("CLMNPSZ") | {
    *("Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No"),
    *("Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"),
}
_CASED: Final = frozenset(
    ["Lower", "Upper", "Ll", "Lu", "Lt", "javaLowerCase", "javaUpperCase", "javaTitleCase"]
)
"""The categories that contain all cased letters if the pattern ignores case."""


def property_class(name: str, flags: Set[str]) -> str | None:
    """The members of a class for a property, whose name may begin with Is or In; None if it is unknown.

    The members may begin with ^ and stand for all other characters then.
    """
    key, equals, value = name.partition("=")
    if equals:
        match key.lower():
            case "sc" | "script":
                return _known(f"Script={value}")
            case "blk" | "block":
                return _known(f"Block={value}")
            case "gc" | "general_category":
                return _category(value, flags)
        return None
    if name.startswith("In"):
        return _known(f"Block={name[2:]}")
    if name.startswith("Is"):
        return _binary(name[2:], flags) or _category(name[2:], flags) or _known(f"Script={name[2:]}")
    if "U" in flags and (posix := _POSIX_IN_UNICODE.get(name.upper())):
        return _binary(posix, flags)
    return _category(name, flags)


def _binary(name: str, flags: Set[str]) -> str | None:
    upper = name.upper()
    if "i" in flags and upper in ("LOWERCASE", "UPPERCASE", "TITLECASE"):
        return r"\p{Lowercase}\p{Uppercase}\p{Lt}"
    return _UNICODE.get(upper)


def _category(name: str, flags: Set[str]) -> str | None:
    if "i" in flags and name in _CASED:
        if name in _ASCII:
            return "a-zA-Z"
        return r"\p{Lowercase}\p{Uppercase}\p{Lt}" if name.startswith("java") else r"\p{Lu}\p{Ll}\p{Lt}"
    return f"\\p{{{name}}}" if name in _GENERAL else _CATEGORIES.get(name)


@lru_cache(maxsize=512)
def _known(name: str) -> str | None:
    """A script or block, if the library knows its name."""
    members = f"\\p{{{name}}}"
    try:
        regex.compile(members, regex.VERSION1)
    except regex.error:
        return None
    return members
