"""The Python codecs of MySQL's and MariaDB's collations, by the collation's id. Pure."""

from __future__ import annotations

from typing import Final

_RANGES: Final = [
    ("cp1252", [5, 8, 15, 31, 47, 48, 49, 94]),
    ("utf-8", [33, 45, 46, 76, 83, *range(192, 216), *range(223, 248), *range(255, 324), *range(576, 640)]),
    ("utf-16-be", [35, 54, 55, 90, *range(101, 125), *range(128, 152), *range(640, 704)]),
    ("utf-16-le", [56, 62]),
    ("utf-32-be", [60, 61, *range(160, 184), *range(736, 768)]),
    ("ascii", [11, 65]),
    ("gbk", [28, 87]),
    ("gb18030", [248, 249, 250]),
    ("big5", [1, 84]),
    ("euc_kr", [19, 85]),
    ("gb2312", [24, 86]),
    ("cp932", [13, 88, 95, 96]),
    ("euc_jp", [12, 91, 97, 98]),
    ("iso8859-2", [2, 9, 21, 27, 77]),
    ("iso8859-7", [25, 70]),
    ("iso8859-8", [16, 71]),
    ("iso8859-9", [30, 78]),
    ("iso8859-13", [20, 41, 42, 79]),
    ("cp1250", [26, 34, 44, 66, 99]),
    ("cp1251", [14, 23, 50, 51, 52]),
    ("cp1256", [57, 67]),
    ("cp1257", [29, 58, 59]),
    ("koi8-r", [7, 74]),
    ("koi8-u", [22, 75]),
    ("cp850", [4, 80]),
    ("cp852", [40, 81]),
    ("cp866", [36, 68]),
    ("tis-620", [18, 89]),
    ("mac_roman", [39, 53]),
    ("mac_latin2", [38, 43]),
    ("hp_roman8", [6, 72]),
]
"""Codecs with the ids of their collations. Others are read as UTF-8."""
_CODECS: Final = {number: codec for codec, numbers in _RANGES for number in numbers}
_CONTROLS: Final = {0x81, 0x8D, 0x8F, 0x90, 0x9D}
"""Bytes without a character in cp1252."""
_NO_PAD: Final = 1024
"""MariaDB's collations without padding have the id of the others plus this."""
_UCA_1400: Final = 2048
"""The first of MariaDB's UCA-14.0.0 collations, of which each character set has 256."""
_MARIA_CODECS: Final = {0: "utf-8", 1: "utf-8", 2: "utf-16-be", 3: "utf-16-be", 4: "utf-32-be"}


def decoded(raw: bytes, codec: str) -> str:
    """The text. Bytes that are none become U+FFFD; in latin1 there are none, five bytes are controls."""
    if codec != "cp1252":
        return raw.decode(codec, "replace")
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return "".join(bytes((each,)).decode("latin-1" if each in _CONTROLS else codec) for each in raw)


def codec_of(collation: int | None) -> str:
    """The codec of a collation's texts; UTF-8 for an unknown one."""
    number = collation or 0
    if number >= _UCA_1400:
        return _MARIA_CODECS.get((number - _UCA_1400) >> 8, "utf-8")
    return _CODECS.get(number - _NO_PAD if number >= _NO_PAD else number, "utf-8")
