"""Time zones: their identifiers, their offsets, and their names as Java has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from itertools import pairwise
from struct import pack
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

_MAX_OFFSET_SECONDS: Final = 18 * 3600
_CYCLE_SECONDS: Final = 146_097 * 86_400  # 400 years, after which the calendar and the weekdays repeat
_FIRST_SECOND: Final = -62_135_596_800 + 2 * 86_400  # datetime's first, with room for an offset
_LAST_SECOND: Final = 253_402_300_799 - 2 * 86_400
_EPOCH: Final = datetime(1970, 1, 1)
_OFFSET: Final = re.compile(
    r"([+-])(?:(\d)|(\d\d)|(\d\d)(\d\d)|(\d\d):(\d\d)|(\d\d)(\d\d)(\d\d)|(\d\d):(\d\d):(\d\d))"
)
_REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
# Python knows these, but they are no identifiers in Java.
_NOT_IN_JAVA: Final = {"EST", "MST", "HST", "ROC", "Factory", "localtime", "GMT+0", "GMT-0", "posixrules"}
_NO_REGIONS: Final = ("posix/", "right/")
# Java 17 still has these zones, with the American rules of 1967 in nearly all years. It reads PST as one.
_SYSTEM_V: Final = {
    f"SystemV/{name}"
    for name in (
        *("AST4", "AST4ADT", "CST6", "CST6CDT", "EST5", "EST5EDT", "HST10"),
        *("MST7", "MST7MDT", "PST8", "PST8PDT", "YST9", "YST9YDT"),
    )
}
# From these seconds on, the time zone database has standard time in summer and an hour less in winter there.
# Java has standard time in winter and daylight saving time in summer.
_WINTER_TIME_FROM: Final = {
    **dict.fromkeys(("Europe/Dublin", "Eire"), -37_242_000),
    **dict.fromkeys(("Africa/Casablanca", "Africa/El_Aaiun"), 1_540_692_000),
    "Africa/Windhoek": 637_970_400,
}


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone: a region with rules, or a fixed offset, which may have a prefix, as in UTC+01:00."""

    name: str
    offset_seconds: int = 0
    rules: ZoneInfo | None = None
    is_offset: bool = False
    """Whether the zone is only an offset, so that it is also formatted and parsed as one."""

    def offset_at(self, second: int) -> int:
        """Return the offset from UTC, in seconds, at a second since 1970."""
        if self.rules is None:
            return self.offset_seconds
        return _seconds((_EPOCH + _in_range(second)).replace(tzinfo=UTC).astimezone(self.rules).utcoffset())

    def local_offsets(self, local_second: int) -> tuple[int, int]:
        """Return the offsets before and after the change that a local time falls into.

        The first is less than the second if clocks skip this time, and greater if they show it twice.
        Elsewhere, they are equal.
        """
        if self.rules is None:
            return self.offset_seconds, self.offset_seconds
        local = (_EPOCH + _in_range(local_second)).replace(tzinfo=self.rules)
        return _seconds(local.utcoffset()), _seconds(local.replace(fold=1).utcoffset())

    def has_daylight_saving_at(self, second: int) -> bool:
        if self.rules is None:
            return False
        saved = _seconds((_EPOCH + _in_range(second)).replace(tzinfo=UTC).astimezone(self.rules).dst())
        winter_from = _WINTER_TIME_FROM.get(self.name)
        return saved > 0 if winter_from is None or second < winter_from else saved == 0


def _in_range(second: int) -> timedelta:
    """Move a second by whole cycles of the calendar into the years that Python has."""
    if second > _LAST_SECOND:
        second -= -((_LAST_SECOND - second) // _CYCLE_SECONDS) * _CYCLE_SECONDS
    return timedelta(seconds=max(second, _FIRST_SECOND))


def _seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else int(offset.total_seconds())


def offset_name(seconds: int) -> str:
    """Write an offset as Java does: Z, +01:00 or +01:00:30."""
    if seconds == 0:
        return "Z"
    minutes, second = divmod(abs(seconds), 60)
    written = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return written + (f":{second:02d}" if second else "")


def offset_zone(seconds: int, prefix: str = "") -> Zone:
    """Return the zone of an offset. Raises ValueError if it is more than 18 hours."""
    if abs(seconds) > _MAX_OFFSET_SECONDS:
        raise ValueError(f"found an offset of {seconds} s, expected 18 hours at most")
    if prefix:
        return Zone(prefix + (offset_name(seconds) if seconds else ""), seconds)
    return Zone(offset_name(seconds), seconds, is_offset=True)


@lru_cache(maxsize=1024)
def zone_of(name: str) -> Zone:
    """Look up a zone by its identifier in Java: UTC, +02:00, GMT+2, Europe/Berlin. Raises ValueError."""
    if name == "Z":
        return offset_zone(0)
    if name[:1] in ("+", "-"):
        return offset_zone(_offset_of(name))
    for prefix in ("UTC", "GMT", "UT"):
        rest = name.removeprefix(prefix)
        if name == prefix or (rest != name and rest[:1] in ("+", "-")):
            return offset_zone(_offset_of(rest) if rest else 0, prefix)
    return region(name)


def _offset_of(text: str) -> int:
    found = _OFFSET.fullmatch(text)
    if found is None:
        raise ValueError(f"found {text!r}, expected an offset such as +02:00")
    hours, minutes, seconds = ([int(part) for part in found.groups()[1:] if part is not None] + [0, 0])[:3]
    if minutes > 59 or seconds > 59:
        raise ValueError(f"found {text!r}, expected at most 59 minutes and seconds")
    return (hours * 3600 + minutes * 60 + seconds) * (-1 if found[1] == "-" else 1)


@lru_cache(maxsize=1024)
def region(name: str) -> Zone:
    """Look up a zone that has rules. Raises ValueError if it is unknown."""
    if name in _SYSTEM_V:
        return Zone(name, rules=_system_v(name))
    try:
        if _REGION.fullmatch(name) and name not in _NOT_IN_JAVA and not name.startswith(_NO_REGIONS):
            return Zone(name, rules=ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise ValueError(f"found {name!r}, expected a time zone such as Europe/Berlin")


def _system_v(name: str) -> ZoneInfo:
    """Make a zone of System V as a compiled file of two kinds of time, and when they change."""
    hours = int(re.findall(r"\d+", name)[0])
    changes = _system_v_changes(-hours * 3600) if name.endswith("T") else []
    rule = name.removeprefix("SystemV/") + (",M4.5.0,M10.5.0" if changes else "")
    kinds = pack(">lbblbb8s", -hours * 3600, 0, 0, -hours * 3600 + 3600, 1, 4, b"STD\0DST\0")
    empty = pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 2, 8) + kinds
    full = pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, len(changes), 2, 8)
    full += b"".join(pack(">q", second) for second in changes)
    full += bytes(number % 2 == 0 for number in range(len(changes))) + kinds
    return ZoneInfo.from_file(BytesIO(empty + full + f"\n{rule}\n".encode()), key=name)


def _system_v_changes(offset_seconds: int) -> list[int]:
    """Return when daylight saving time begins and ends in turn, in the years before the last rule."""
    changes = []
    for year in range(1900, 1976):
        first = {1974: datetime(1974, 1, 6), 1975: datetime(1975, 2, 23)}.get(year, _last_sunday(year, 4))
        last = datetime(1974, 11, 24) if year == 1974 else _last_sunday(year, 10)
        changes.append(int((first - _EPOCH).total_seconds()) + 7200 - offset_seconds)
        changes.append(int((last - _EPOCH).total_seconds()) + 3600 - offset_seconds)
    return changes


def _last_sunday(year: int, month: int) -> datetime:
    last = datetime(year, month + 1, 1) - timedelta(days=1)
    return last - timedelta(days=last.isoweekday() % 7)


@cache
def region_names() -> frozenset[str]:
    return frozenset(available_timezones() - _NOT_IN_JAVA) | _SYSTEM_V


class Prefixes:
    """Finds the key that begins a text, in the manner of Java's prefix tree.

    The tree has a node for each key and for each start that keys share. The longest node that begins the text
    counts, and if it is no key, none is found, not even a shorter one. Upper and lower case are equal.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._nodes: dict[str, str | None] = {}
        lower = sorted(key.lower() for key in keys)
        for one, other in pairwise(lower):
            shared = 0
            while shared < min(len(one), len(other)) and one[shared] == other[shared]:
                shared += 1
            self._nodes[one[:shared]] = None
        self._nodes.update({key.lower(): value for key, value in keys.items()})
        self._longest = max(map(len, self._nodes))

    def find(self, text: str, at: int) -> tuple[str, int] | None:
        """Return the value and the length of the key, or None."""
        begin = text[at : at + self._longest].lower()
        for length in range(len(begin), 0, -1):
            if begin[:length] in self._nodes:
                value = self._nodes[begin[:length]]
                return None if value is None else (value, length)
        return None


@cache
def _sections() -> dict[str, list[tuple[str, str]]]:
    """Read the lines of the names' file by section, each as the text before and after its ``=``."""
    sections: dict[str, list[tuple[str, str]]] = {}
    lines: list[tuple[str, str]] = []
    for line in files(__package__).joinpath("zone_names.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            lines = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            before, after = line.split(" = ")
            lines.append((before, after))
    return sections


@cache
def _shown() -> dict[str, tuple[str, ...]]:
    return {
        zone: tuple(names.split(" | ")) for names, zones in _sections()["shown"] for zone in zones.split(" ")
    }


def shown_name(zone: Zone, full: bool, variant: int) -> str:
    """Return a zone's name in English for standard time (0), daylight saving time (1) or any time (2)."""
    names = _shown().get(zone.name)
    if names is None:
        computed = re.fullmatch(r"Etc/GMT([+-])(\d+)", zone.name)
        if computed is None:
            return zone.name
        return f"GMT{'-' if computed[1] == '+' else '+'}{int(computed[2]):02d}:00"
    return names[variant + (3 if full else 0)]


@cache
def zone_identifiers() -> Prefixes:
    return Prefixes({name: name for name in region_names()})


@cache
def zones_by_name(english: bool, full: bool) -> Prefixes:
    """Return the zones by their short or full names, and by their identifiers.

    The English ones lead to any zone of that name: where they are used, only the length of the name counts.
    """
    keys = {name: name for name in region_names() if english or not name.startswith(("Etc/GMT", "SystemV"))}
    if english:
        for name, shown in _shown().items():
            keys.update(dict.fromkeys(shown[3:] if full else shown[:3], name))
    else:
        keys.update(_names_read("long" if full else "short"))
    return Prefixes(keys)


def _names_read(section: str) -> Iterable[tuple[str, str]]:
    return [(name, zone) for zone, names in _sections()[section] for name in names.split(" | ")]
