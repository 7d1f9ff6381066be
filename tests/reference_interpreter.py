"""An interpreter of the operators with windows and joins: the oracle of the property tests.

It follows the documentation of Kafka Streams and is simple and slow: it keeps every record it has seen,
searches all of them each time, and shares no code with the engine. It takes one record at a time and returns
the records which that one produces: ``(key, value, timestamp_ms)``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

Row = tuple[str, str | None, str | None, int]
Sent = tuple[str | None, str | None, int]
Interpreter = Callable[[Row], list[Sent]]


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _joined(one: str | None, other: str | None) -> str:
    return f"{_shown(one)}+{_shown(other)}"


@dataclass
class TimeWindowed:
    """Keeps the records of all windows; a window's value combines those that arrived while it was open."""

    size: int
    advance: int
    grace: int
    on_close: bool = False
    counts: bool = False
    now: int = -1
    windows: dict[tuple[int, str], list[tuple[str, int]]] = field(default_factory=dict)
    closed: set[tuple[int, str]] = field(default_factory=set)

    def _sent(self, start: int, key: str) -> Sent:
        rows = self.windows[start, key]
        value = str(len(rows)) if self.counts else "".join(value for value, _ in rows)
        return f"{key}@{start}/{start + self.size}", value, max(timestamp for _, timestamp in rows)

    def __call__(self, row: Row) -> list[Sent]:
        _, key, value, timestamp = row
        if key is None or value is None:
            return []
        sent = []
        self.now = max(self.now, timestamp)
        if self.on_close:
            for start, of in sorted(self.windows):
                if start + self.size + self.grace <= self.now and (start, of) not in self.closed:
                    self.closed.add((start, of))
                    sent.append(self._sent(start, of))
        for start in range(0, timestamp + 1, self.advance):
            if start <= timestamp < start + self.size and start + self.size + self.grace > self.now:
                self.windows.setdefault((start, key), []).append((value, timestamp))
                if not self.on_close:
                    sent.append(self._sent(start, key))
        return sent


@dataclass
class Sliding:
    """The sliding windows of KIP-450 by their definition, for records that are never late."""

    difference: int
    records: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    table: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)

    def __call__(self, row: Row) -> list[Sent]:
        _, key, value, timestamp = row
        if key is None or value is None:
            return []
        records = self.records.setdefault(key, [])
        records.append((timestamp, value))
        times = {time for time, _ in records}
        starts = {max(0, time - self.difference) for time in times} | {time + 1 for time in times}
        sent: list[Sent] = []
        for start in sorted(starts):
            inside = [(time, text) for time, text in records if start <= time <= start + self.difference]
            if not inside:
                continue
            now = "".join(text for _, text in inside), max(time for time, _ in inside)
            if self.table.get((key, start)) != now:
                self.table[key, start] = now
                sent.append((f"{key}@{start}/{start + self.difference}", *now))
        return sent


@dataclass
class Sessions:
    """Keeps sessions with their records."""

    gap: int
    grace: int
    on_close: bool = False
    now: int = -1
    sessions: list[tuple[int, int, str, str]] = field(default_factory=list)
    """``(end, start, key, value)``."""
    closed: set[tuple[int, int, str]] = field(default_factory=set)

    def __call__(self, row: Row) -> list[Sent]:
        _, key, value, timestamp = row
        if key is None or value is None:
            return []
        sent: list[Sent] = []
        self.now = max(self.now, timestamp)
        if self.on_close:
            for end, start, of, text in sorted(self.sessions):
                if end + self.gap + self.grace < self.now and (end, start, of) not in self.closed:
                    self.closed.add((end, start, of))
                    sent.append((f"{of}@{start}/{end}", text, end))
        near = sorted(
            session
            for session in self.sessions
            if session[2] == key
            and session[0] + self.gap + self.grace >= self.now
            and session[0] >= timestamp - self.gap
            and session[1] <= timestamp + self.gap
        )
        start = min([timestamp, *(session[1] for session in near)])
        end = max([timestamp, *(session[0] for session in near)])
        if end + self.gap + self.grace < self.now:
            return sent
        for session in near:
            self.sessions.remove(session)
            if not self.on_close and (start, end) != (timestamp, timestamp):
                sent.append((f"{key}@{session[1]}/{session[0]}", None, session[0]))
        text = "".join(session[3] for session in near) + value
        self.sessions.append((end, start, key, text))
        if not self.on_close:
            sent.append((f"{key}@{start}/{end}", text, end))
        return sent


@dataclass
class FinalOnly:
    """Suppresses the output of another interpreter until its windows close."""

    windows: Interpreter
    after: int
    """The time after its end at which a window becomes final."""
    now: int = -1
    waiting: dict[str, tuple[int, str | None, int]] = field(default_factory=dict)

    def __call__(self, row: Row) -> list[Sent]:
        sent: list[Sent] = []
        for windowed, value, timestamp in self.windows(row):
            assert windowed is not None
            end = windowed.split("/")[1]
            self.now = max(self.now, timestamp)
            self.waiting[windowed] = (int(end), value, timestamp)
            order = sorted(self.waiting, key=lambda name: (self.waiting[name][0], _windowed_order(name)))
            for name in order:
                due, text, at = self.waiting[name]
                if due + self.after <= self.now:
                    del self.waiting[name]
                    if text is not None:
                        sent.append((name, text, at))
        return sent


def _windowed_order(name: str) -> tuple[str, int, int]:
    """The sort key of windows by their stored bytes: keys have one length, then the times follow."""
    key, times = name.split("@")
    start, end = times.split("/")
    return key, int(end), int(start)


@dataclass
class HeldBack:
    """A table that holds back its updates."""

    wait: int
    rows: int | None = None
    now: int = -1
    waiting: dict[str, tuple[int, str | None, int]] = field(default_factory=dict)

    def __call__(self, row: Row) -> list[Sent]:
        _, key, value, timestamp = row
        if key is None:
            return []
        self.now = max(self.now, timestamp)
        since = self.waiting[key][0] if key in self.waiting else timestamp
        self.waiting[key] = (since, value, timestamp)
        sent: list[Sent] = []
        for name in sorted(self.waiting, key=lambda name: (self.waiting[name][0], name)):
            since, text, at = self.waiting[name]
            if since + self.wait <= self.now or (self.rows is not None and len(self.waiting) > self.rows):
                del self.waiting[name]
                sent.append((name, text, at))
        return sent


@dataclass
class StreamJoin:
    """Keeps the records of both sides, each for the length of the window and the grace."""

    difference: int
    grace: int
    left_outer: bool = False
    right_outer: bool = False
    now: int = -1
    seen: dict[str, list[tuple[int, str, str]]] = field(default_factory=lambda: {"left": [], "right": []})
    alone: list[tuple[int, int, str, str]] = field(default_factory=list)
    """Records without a match: ``(timestamp, 1 if left, key, value)``."""

    def __call__(self, row: Row) -> list[Sent]:
        side, key, value, timestamp = row
        outer = self.left_outer if side == "left" else self.right_outer
        passes = timestamp > self.now
        self.now = max(self.now, timestamp)
        if value is None or (key is None and not outer):
            return []
        if key is None:
            return [(key, self._pair(side, value, None), timestamp)]
        sent: list[Sent] = []
        if passes:
            for at, is_left, of, text in sorted(self.alone, key=lambda entry: entry[:3]):
                if at + self.difference + self.grace < self.now:
                    self.alone.remove((at, is_left, of, text))
                    sent.append((of, self._pair("left" if is_left else "right", text, None), at))
        other = "right" if side == "left" else "left"
        latest = max((at for at, _, _ in self.seen[other]), default=0)
        kept = latest - 2 * self.difference - self.grace
        partners = [
            (at, text)
            for at, of, text in sorted(self.seen[other], key=lambda entry: entry[0])
            if of == key and abs(at - timestamp) <= self.difference and at >= kept
        ]
        for at, text in partners:
            self.alone = [
                entry
                for entry in self.alone
                if not (entry[0] == at and entry[1] == (other == "left") and entry[2] == key)
            ]
            sent.append((key, self._pair(side, value, text), max(at, timestamp)))
        if not partners and outer:
            if timestamp + self.difference + self.grace < self.now:
                sent.append((key, self._pair(side, value, None), timestamp))
            else:
                self.alone.append((timestamp, int(side == "left"), key, value))
        own = max((at for at, _, _ in self.seen[side]), default=0)
        if timestamp >= own - 2 * self.difference - self.grace:
            self.seen[side].append((timestamp, key, value))
        return sent

    def _pair(self, side: str, value: str, other: str | None) -> str:
        return _joined(value, other) if side == "left" else _joined(other, value)


@dataclass
class StreamTable:
    """Joins the stream's records with a dict."""

    left: bool
    table: dict[str, str] = field(default_factory=dict)

    def __call__(self, row: Row) -> list[Sent]:
        topic, key, value, timestamp = row
        if topic == "right":
            if key is not None:
                if value is None:
                    self.table.pop(key, None)
                else:
                    self.table[key] = value
            return []
        found = None if key is None else self.table.get(key)
        if value is None or (found is None and not self.left):
            return []
        return [(key, _joined(value, found), timestamp)]


@dataclass
class VersionedTable:
    """Keeps every version of every row. Records wait for any grace, then join the version of their time."""

    grace: int | None
    now: int = -1
    versions: dict[str, dict[int, str | None]] = field(default_factory=dict)
    waiting: list[tuple[int, str, str]] = field(default_factory=list)

    def _result(self, key: str, value: str, timestamp: int) -> Sent:
        known = self.versions.get(key, {})
        before = [at for at in known if at <= timestamp]
        return key, _joined(value, known[max(before)] if before else None), timestamp

    def __call__(self, row: Row) -> list[Sent]:
        topic, key, value, timestamp = row
        if key is None:
            return [] if topic == "right" or value is None else [(None, _joined(value, None), timestamp)]
        if topic == "right":
            self.versions.setdefault(key, {})[timestamp] = value
            return []
        if value is None:
            return []
        if self.grace is None or timestamp < self.now - self.grace:
            return [self._result(key, value, timestamp)]
        self.now = max(self.now, timestamp)
        self.waiting.append((timestamp, key, value))
        due = sorted((r for r in self.waiting if r[0] <= self.now - self.grace), key=lambda r: r[:2])
        self.waiting = [record for record in self.waiting if record not in due]
        return [self._result(key, value, at) for at, key, value in due]


@dataclass
class TableJoin:
    """Joins two dicts."""

    left_outer: bool
    right_outer: bool
    left: dict[str, tuple[str, int]] = field(default_factory=dict)
    right: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __call__(self, row: Row) -> list[Sent]:
        topic, key, value, timestamp = row
        if key is None:
            return []
        mine, others = (self.left, self.right) if topic == "left" else (self.right, self.left)
        before = mine.get(key)
        if value is None:
            mine.pop(key, None)
        else:
            mine[key] = (value, timestamp)
        other = others.get(key)
        keeps_mine = self.left_outer if topic == "left" else self.right_outer
        if other is None and (not keeps_mine or (before is None and value is None)):
            return []
        at = timestamp if other is None else max(timestamp, other[1])
        one, two = self.left.get(key), self.right.get(key)
        exists = (one is not None or self.right_outer) and (two is not None or self.left_outer)
        if one is None and two is None:
            exists = False
        result = _joined(one[0] if one else None, two[0] if two else None) if exists else None
        return [(key, result, at)]


def foreign_join(rows: list[Row], left: bool) -> dict[str, str]:
    """The final table of a foreign-key join."""
    tables: dict[str, dict[str, str]] = {"left": {}, "right": {}}
    for topic, key, value, _ in rows:
        if key is not None:
            if value is None:
                tables[topic].pop(key, None)
            else:
                tables[topic][key] = value
    result = {}
    for key, value in tables["left"].items():
        foreign = tables["right"].get(value.split(":")[0])
        if foreign is not None or left:
            result[key] = _joined(value, foreign)
    return result


INTERPRETERS: dict[str, Callable[[], Interpreter]] = {
    "tumbling": lambda: TimeWindowed(10, 10, 5, counts=True),
    "hopping": lambda: TimeWindowed(10, 4, 7),
    "sliding-never-late": lambda: Sliding(10),
    "sessions": lambda: Sessions(6, 9),
    "tumbling-close": lambda: TimeWindowed(10, 10, 5, on_close=True),
    "hopping-close": lambda: TimeWindowed(10, 4, 5, on_close=True),
    "sessions-close": lambda: Sessions(6, 5, on_close=True),
    "suppress-close": lambda: FinalOnly(TimeWindowed(10, 10, 5), 5),
    "suppress-sessions": lambda: FinalOnly(Sessions(6, 5), 6 + 5 + 1),
    "suppress-time": lambda: HeldBack(10),
    "suppress-rows": lambda: HeldBack(50, 2),
    "stream-inner": lambda: StreamJoin(10, 6),
    "stream-left": lambda: StreamJoin(10, 0, left_outer=True),
    "stream-outer": lambda: StreamJoin(10, 0, left_outer=True, right_outer=True),
    "stream-outer-grace": lambda: StreamJoin(10, 8, left_outer=True, right_outer=True),
    "stream-table": lambda: StreamTable(left=False),
    "stream-table-left": lambda: StreamTable(left=True),
    "stream-versioned": lambda: VersionedTable(None),
    "stream-versioned-grace": lambda: VersionedTable(10),
    "table-inner": lambda: TableJoin(False, False),
    "table-left": lambda: TableJoin(True, False),
    "table-outer": lambda: TableJoin(True, True),
}
