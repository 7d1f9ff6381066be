"""A second opinion on the results of queries: an interpreter of plans, one record at a time, slow and plain.

It is written from ksqlDB's and Kafka Streams' documentation. It keeps every record it has read in lists,
searches all of them each time, and shares nothing with the engine but the plan: no evaluation, no stores, no
topology. Decimals, temporal types and most functions are left to other oracles: it raises `Unknown` for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from penstock.sql.analysis import plan as p
from penstock.sql.catalog import Column, Role
from penstock.sql.language import types
from penstock.sql.language.statements import JoinKind, SourceKind, WindowKind

Row = dict[str, Any]
Key = tuple[Any, ...]
Window = tuple[int, int]

DAY_MS = 24 * 60 * 60 * 1000


class Unknown(Exception):
    """The oracle cannot compute this result."""


@dataclass(frozen=True)
class Event:
    """A record of a stream, or a change of a table: ``old`` is the row before the change."""

    key: Key | None
    row: Row | None
    time_ms: int
    window: Window | None = None
    old: Row | None = None


# expressions


class _Failed(Exception):
    """A number or logic operator met a null, or a divisor was zero: the whole expression has no value."""


def _given(of: Any) -> Any:
    if of is None:
        raise _Failed
    return of


def _argument(node: exp.Expr, row: Row) -> Any:
    """Evaluate an argument.

    ksqlDB catches failures in arguments that are calls or parts of structs. In others it does so where it
    converts the argument, which depends on types that are not known here.
    """
    if isinstance(node, exp.Anonymous | exp.Dot):
        return guarded(node, row)
    try:
        return value(node, row)
    except _Failed:
        raise Unknown("an argument that fails") from None


def guarded(node: exp.Expr, row: Row) -> Any:
    """The value of a whole expression: null if its evaluation failed."""
    try:
        return value(node, row)
    except _Failed:
        return None


def value(node: exp.Expr, row: Row) -> Any:
    match node:
        case exp.Paren():
            return value(node.this, row)
        case exp.Column():
            return row[node.name]
        case exp.Literal():
            if node.is_string:
                return node.name
            text = node.name
            return int(text) if text.lstrip("-").isdigit() else float(text)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Neg():
            return -_given(value(node.this, row))
        case exp.And() | exp.Or():
            return _logical(node, row)
        case exp.Not():
            return not _given(value(node.this, row))
        case exp.Is():
            return value(node.this, row) is None
        case exp.NullSafeNEQ():
            return value(node.this, row) != value(node.expression, row)
        case exp.NullSafeEQ():
            return value(node.this, row) == value(node.expression, row)
        case exp.Case():
            of = value(node.this, row) if node.this else True
            for branch in node.args["ifs"]:
                found = value(branch.this, row)
                if found is None and not node.this:
                    raise _Failed  # ksqlDB's code fails too if a condition is null
                if of is not None and found == of:
                    return value(branch.args["true"], row)
            return value(node.args["default"], row) if node.args.get("default") else None
        case exp.Dot():
            of = guarded(node.this, row)
            return None if of is None else of.get(node.expression.name)
        case exp.Bracket():
            return _element(guarded(node.this, row), guarded(node.expressions[0], row))
        case exp.Between():
            of, low, high = (value(node.args[name], row) for name in ("this", "low", "high"))
            return None not in (of, low, high) and low <= of <= high
        case exp.In():
            of = value(node.this, row)
            return of is not None and any(of == value(each, row) for each in node.expressions)
        case exp.Like():
            return _like(value(node.this, row), value(node.expression, row))
        case exp.Cast():
            return _cast(guarded(node.this, row), str(node.to.this.value))
        case exp.Anonymous():
            return _call(node.name.upper(), [_argument(each, row) for each in node.expressions])
        case exp.Binary():
            return _binary(node, value(node.this, row), value(node.expression, row))
    raise Unknown(type(node).__name__)


def _logical(node: exp.And | exp.Or, row: Row) -> bool:
    """Evaluate AND or OR; the right side is not evaluated if the left one decides."""
    left = _given(value(node.this, row))
    if left is isinstance(node, exp.Or):
        return left
    return _given(value(node.expression, row))


def _element(of: Any, at: Any) -> Any:
    if of is None or at is None:
        return None
    if isinstance(of, dict):
        return of.get(at)
    place = at - 1 if at > 0 else at
    return of[place] if at and -len(of) <= place < len(of) else None


def _like(text: Any, pattern: Any) -> bool:
    text, pattern = _given(text), _given(pattern)
    parts = [".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _cast(of: Any, target: str) -> Any:
    if of is None:
        return None
    if target in ("INT", "BIGINT"):
        half = 2**31 if target == "INT" else 2**63
        return (int(of) + half) % (2 * half) - half
    if target == "DOUBLE":
        return float(of)
    if target in ("TEXT", "VARCHAR") and isinstance(of, (int, str)) and not isinstance(of, bool):
        return str(of)
    raise Unknown(f"CAST to {target}")


def _call(name: str, arguments: list[Any]) -> Any:
    first = arguments[0] if arguments else None
    match name:
        case "COALESCE":
            return next((each for each in arguments if each is not None), None)
        case "IFNULL":
            return first if first is not None else arguments[1]
        case "UCASE" | "LCASE" | "LEN" | "ABS" if first is None:
            return None
        case "UCASE":
            return first.upper()
        case "LCASE":
            return first.lower()
        case "LEN":
            return len(first)
        case "ABS":
            return abs(first)
    raise Unknown(name)


def _binary(node: exp.Binary, left: Any, right: Any) -> Any:
    comparisons = {exp.EQ: 0, exp.NEQ: 1, exp.LT: 2, exp.LTE: 3, exp.GT: 4, exp.GTE: 5}
    if type(node) in comparisons:
        if left is None or right is None:
            return False
        results = (left == right, left != right)
        if type(node) in (exp.EQ, exp.NEQ):
            return results[comparisons[type(node)]]
        return (left < right, left <= right, left > right, left >= right)[comparisons[type(node)] - 2]
    if isinstance(node, exp.DPipe):  # CONCAT, which ignores nulls
        return "".join(each for each in (left, right) if each is not None)
    if isinstance(node, exp.Add) and (isinstance(left, str) or isinstance(right, str)):
        return "".join("null" if each is None else each for each in (left, right))
    left, right = _given(left), _given(right)
    match node:
        case exp.Add():
            return left + right
        case exp.Sub():
            return left - right
        case exp.Mul():
            return left * right
        case exp.Div() | exp.Mod():
            return _divided(isinstance(node, exp.Mod), left, right)
    raise Unknown(type(node).__name__)


def _divided(remainder: bool, left: Any, right: Any) -> Any:
    """Divide as Java does: towards zero, the remainder with the dividend's sign; by zero, fail."""
    if isinstance(left, float) or isinstance(right, float):
        raise Unknown("division of doubles")
    if right == 0:
        raise _Failed
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return left - quotient * right if remainder else quotient


# steps


class Step:
    """A step of a plan: it takes records of topics and returns events."""

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        raise NotImplementedError


def step_of(step: p.Step) -> Step:
    match step:
        case p.Source():
            return _Source(step)
        case p.Filter():
            return _Filter(step)
        case p.Project():
            return _Project(step)
        case p.Rekey():
            return _Rekey(step)
        case p.Flatten():
            return _Flatten(step)
        case p.Aggregate():
            return _TableGroups(step) if step.input.kind is SourceKind.TABLE else _stream_groups(step)
        case p.EmitFinal():
            if not isinstance(step.input, p.Aggregate) or step.input.window is None:
                raise Unknown("EMIT FINAL of what is no window")
            return _stream_groups(step.input, final=True)
        case p.Join():
            return _join_of(step)
        case p.Sink():
            return step_of(step.input)
    raise Unknown(type(step).__name__)


class _Source(Step):
    def __init__(self, step: p.Source) -> None:
        self.source, self.prefix = step.source, step.prefix
        self.is_table = step.kind is SourceKind.TABLE
        self.known: dict[Any, Row] = {}
        _known_types(self.source.columns)
        self.count = 0
        if self.source.timestamp is not None or any(c.role is Role.HEADERS for c in self.source.columns):
            raise Unknown("timestamps of columns, headers")

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        if topic != self.source.topic:
            return
        self.count += 1
        if self.is_table and event.key is None:
            return
        row = self._row(event)
        if not self.is_table:
            yield replace(event, row=row)
            return
        at = (event.key, event.window)
        old = self.known.pop(at, None)
        if row is not None:
            self.known[at] = row
        yield replace(event, row=row, old=old)

    def _row(self, event: Event) -> Row | None:
        if event.row is None:
            return None
        keys = event.key or (None,) * len(self.source.keys)
        row = dict(zip((key.name for key in self.source.keys), keys, strict=True)) | event.row
        row |= {"ROWTIME": event.time_ms, "ROWPARTITION": 0, "ROWOFFSET": self.count - 1}
        if event.window is not None:
            row["WINDOWSTART"], row["WINDOWEND"] = event.window
        return {self.prefix + name: each for name, each in row.items()}


class _Filter(Step):
    """A filter: a row of a table that no longer passes is deleted if it passed before."""

    def __init__(self, step: p.Filter) -> None:
        self.step, self.input = step, step_of(step.input)
        self.is_table = step.kind is SourceKind.TABLE

    def passes(self, row: Row | None) -> bool:
        return row is not None and guarded(self.step.condition, row) is True

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for each in self.input.feed(topic, event):
            row = each.row if self.passes(each.row) else None
            old = each.old if self.passes(each.old) else None
            if row is not None or (self.is_table and old is not None):
                yield replace(each, row=row, old=old)


class _Project(Step):
    def __init__(self, step: p.Project) -> None:
        self.step, self.input = step, step_of(step.input)

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for each in self.input.feed(topic, event):
            yield replace(each, row=self._row(each.row), old=self._row(each.old))

    def _row(self, row: Row | None) -> Row | None:
        if row is None:
            return None
        return {column.name: guarded(column.expression, row) for column in self.step.columns}


class _Rekey(Step):
    def __init__(self, step: p.Rekey) -> None:
        self.step, self.input = step, step_of(step.input)

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        if self.step.kind is SourceKind.TABLE:
            raise Unknown("PARTITION BY of a table")
        for each in self.input.feed(topic, event):
            if each.row is None:
                yield replace(each, key=None, window=None)
                continue
            row = each.row
            found = {key.name: guarded(key.expression, row) for key in self.step.keys}
            key = tuple(found.values()) or None
            if key is not None and len(key) == 1 and key[0] is None:
                key = None
            yield replace(each, key=key, row=row | found, window=None)


class _Flatten(Step):
    def __init__(self, step: p.Flatten) -> None:
        self.step, self.input = step, step_of(step.input)

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for each in self.input.feed(topic, event):
            if each.row is None:
                continue
            lists = []
            for call in self.step.calls:
                if call.expression.name.upper() != "EXPLODE":
                    raise Unknown(call.expression.name)
                lists.append(guarded(call.expression.expressions[0], each.row) or [])
            for at in range(max(map(len, lists))):
                given = (of[at] if at < len(of) else None for of in lists)
                names = (call.name for call in self.step.calls)
                yield replace(each, row=each.row | dict(zip(names, given, strict=True)))


# aggregates: over all rows there are, from the first to the last


def aggregated(call: exp.Expr, rows: Sequence[Row]) -> Any:
    name = "COUNT" if isinstance(call, exp.Count) else call.name.upper()
    arguments = [call.this] if isinstance(call, exp.Count) else call.expressions
    if name == "COUNT" and (not arguments or isinstance(arguments[0], (exp.Star, type(None)))):
        return len(rows)
    given = [value(arguments[0], row) for row in rows]
    values = [each for each in given if each is not None]
    match name:
        case "COUNT":
            return len(values)
        case "COUNT_DISTINCT":
            raise Unknown("an estimate")
        case "SUM":
            return sum(values)
        case "MIN":
            return min(values, default=None)
        case "MAX":
            return max(values, default=None)
        case "COLLECT_LIST":
            return given
        case "COLLECT_SET":
            return list(dict.fromkeys(given))
        case "EARLIEST_BY_OFFSET" if len(arguments) == 1:
            return values[0] if values else None
        case "LATEST_BY_OFFSET" if len(arguments) == 1:
            return values[-1] if values else None
    raise Unknown(name)


def _group_key(keys: Sequence[p.Computed], row: Row | None) -> Key | None:
    """The key of the row's group, or None if it belongs to no group."""
    if row is None:
        return None
    key = tuple(guarded(each.expression, row) for each in keys)
    return None if None in key else key


def _group_row(step: p.Aggregate, key: Key, rows: Sequence[Row], window: Window | None) -> Row:
    row: Row = dict(zip((each.name for each in step.keys), key, strict=True))
    # columns of the GROUP BY keep their names
    for column in step.schema:
        if column.role is Role.VALUE and rows and column.name in rows[-1]:
            row.setdefault(column.name, rows[-1][column.name])
    row |= {call.name: aggregated(call.expression, rows) for call in step.calls}
    if window is not None:
        row["WINDOWSTART"], row["WINDOWEND"] = window
    return row


@dataclass
class _Group:
    rows: list[Row] = field(default_factory=list)
    time_ms: int = -1


def _stream_groups(step: p.Aggregate, *, final: bool = False) -> Step:
    if step.window is None:
        return _Groups(step)
    return (_Sessions if step.window.kind is WindowKind.SESSION else _Windows)(step, final)


class _Groups(Step):
    def __init__(self, step: p.Aggregate) -> None:
        self.step, self.input = step, step_of(step.input)
        self.groups: dict[Key, _Group] = {}

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for each in self.input.feed(topic, event):
            key = _group_key(self.step.keys, each.row)
            if key is None or each.row is None:
                continue
            group = self.groups.setdefault(key, _Group())
            old = _group_row(self.step, key, group.rows, None) if group.rows else None
            group.rows.append(each.row)
            group.time_ms = max(group.time_ms, each.time_ms)
            row = _group_row(self.step, key, group.rows, None)
            row["ROWTIME"] = group.time_ms
            yield Event(key, row, group.time_ms, None, old)


class _Windows(Step):
    """Tumbling and hopping windows."""

    def __init__(self, step: p.Aggregate, final: bool) -> None:
        assert step.window is not None
        self.step, self.input, self.final = step, step_of(step.input), final
        self.size = step.window.size_ms
        self.advance = step.window.advance_ms or self.size
        grace = step.window.grace_ms
        self.grace = grace if grace is not None else max(0, DAY_MS - self.size)
        self.now = -1
        self.groups: dict[tuple[int, Key], _Group] = {}
        self.closed: set[tuple[int, Key]] = set()

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for each in self.input.feed(topic, event):
            key = _group_key(self.step.keys, each.row)
            if key is None or each.row is None:
                continue
            self.now = max(self.now, each.time_ms)
            first = max(0, each.time_ms - self.size + self.advance) // self.advance * self.advance
            for start in range(first, each.time_ms + 1, self.advance):
                if start + self.size + self.grace > self.now:
                    yield from self._add(start, key, each)
            yield from self._close()

    def _add(self, start: int, key: Key, each: Event) -> Iterator[Event]:
        assert each.row is not None
        group = self.groups.setdefault((start, key), _Group())
        window = (start, start + self.size)
        old = _group_row(self.step, key, group.rows, window) if group.rows else None
        group.rows.append(each.row)
        group.time_ms = max(group.time_ms, each.time_ms)
        if not self.final:
            yield self._event(start, key, group, old)

    def _event(self, start: int, key: Key, group: _Group, old: Row | None) -> Event:
        window = (start, start + self.size)
        row = _group_row(self.step, key, group.rows, window)
        row["ROWTIME"] = group.time_ms
        return Event(key, row, group.time_ms, window, old)

    def _close(self) -> Iterator[Event]:
        if not self.final:
            return
        for start, key in sorted(self.groups):  # as in a store: by time, then by key
            is_over = start + self.size + self.grace <= self.now
            if is_over and (start, key) not in self.closed:
                self.closed.add((start, key))
                yield self._event(start, key, self.groups[start, key], None)


@dataclass
class _Session:
    key: Key
    start: int
    end: int
    rows: list[Row]


class _Sessions(Step):
    def __init__(self, step: p.Aggregate, final: bool) -> None:
        assert step.window is not None
        self.step, self.input, self.final = step, step_of(step.input), final
        self.gap = step.window.size_ms
        grace = step.window.grace_ms
        self.grace = grace if grace is not None else max(0, DAY_MS - self.gap)
        self.now = -1
        self.seen: list[Row] = []
        self.sessions: list[_Session] = []
        self.closed: list[_Session] = []

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for each in self.input.feed(topic, event):
            key = _group_key(self.step.keys, each.row)
            if key is None or each.row is None:
                continue
            self.now = max(self.now, each.time_ms)
            yield from self._add(key, each)
            yield from self._close()

    def _row(self, session: _Session) -> Row:
        row = _group_row(self.step, session.key, session.rows, (session.start, session.end))
        # The first and the last value are those by offset, not by the sessions' times.
        came = [each for each in self.seen if any(each is kept for kept in session.rows)]
        for call in self.step.calls:
            if call.expression.name.upper().endswith("_BY_OFFSET"):
                row[call.name] = aggregated(call.expression, came)
        row["ROWTIME"] = session.end
        return row

    def _add(self, key: Key, each: Event) -> Iterator[Event]:
        assert each.row is not None
        self.seen.append(each.row)
        time = each.time_ms
        near = [
            session
            for session in self.sessions
            if session.key == key
            and session.end >= time - self.gap
            and session.start <= time + self.gap
            and session.end + self.gap + self.grace >= self.now
        ]
        near.sort(key=lambda session: session.start)
        start = min([time, *(session.start for session in near)])
        end = max([time, *(session.end for session in near)])
        if end + self.gap + self.grace < self.now:
            return
        # Kafka Streams retracts the old session, even with equal bounds, unless it covers a single moment.
        is_moment = start == end == time
        for session in near:
            self.sessions.remove(session)
            if not self.final and not is_moment:
                window = (session.start, session.end)
                yield Event(key, None, session.end, window, self._row(session))
        rows = [row for session in near for row in session.rows]
        same = [self._row(session) for session in near] if is_moment else []
        merged = _Session(key, start, end, [*rows, each.row])
        self.sessions.append(merged)
        if not self.final:
            yield Event(key, self._row(merged), end, (start, end), same[0] if same else None)

    def _close(self) -> Iterator[Event]:
        if not self.final:
            return
        for session in sorted(self.sessions, key=lambda each: (each.end, each.start, each.key)):
            if session.end + self.gap + self.grace < self.now and session not in self.closed:
                self.closed.append(session)
                yield Event(session.key, self._row(session), session.end, (session.start, session.end))


class _TableGroups(Step):
    """Groups of a table's rows: the old row is subtracted before the new one is added."""

    def __init__(self, step: p.Aggregate) -> None:
        self.step, self.input = step, step_of(step.input)
        self.groups: dict[Key, list[Row]] = {}
        self.times: dict[Key, int] = {}
        for call in step.calls:
            name = "COUNT" if isinstance(call.expression, exp.Count) else call.expression.name.upper()
            if name not in ("COUNT", "SUM", "COLLECT_LIST"):
                raise Unknown(f"{name} of a table")

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for each in self.input.feed(topic, event):
            old_key = _group_key(self.step.keys, each.old)
            new_key = _group_key(self.step.keys, each.row)
            if old_key is not None and old_key == new_key:  # KIP-904: one change if the group stays
                yield from self._change(old_key, each, remove=each.old, add=each.row)
                continue
            if old_key is not None:
                yield from self._change(old_key, each, remove=each.old, add=None)
            if new_key is not None:
                yield from self._change(new_key, each, remove=None, add=each.row)

    def _change(self, key: Key, each: Event, remove: Row | None, add: Row | None) -> Iterator[Event]:
        is_new = key not in self.groups
        rows = self.groups.setdefault(key, [])
        old = None if is_new else _group_row(self.step, key, list(rows), None)
        if remove is not None:
            rows.reverse()
            found = next((row for row in rows if _same(row, remove)), None)
            if found is not None:
                rows.remove(found)
            rows.reverse()
        if add is not None:
            rows.append(add)
        self.times[key] = max(self.times.get(key, -1), each.time_ms)
        row = _group_row(self.step, key, rows, None)
        row["ROWTIME"] = self.times[key]
        yield Event(key, row, self.times[key], None, old)


def _same(one: Row, other: Row) -> bool:
    return {k: v for k, v in one.items() if "ROWTIME" not in k and "ROWOFFSET" not in k} == {
        k: v for k, v in other.items() if "ROWTIME" not in k and "ROWOFFSET" not in k
    }


# joins


def _join_of(step: p.Join) -> Step:
    if step.kind_of_join is JoinKind.RIGHT:
        raise Unknown("right joins")
    match step.form:
        case p.JoinForm.STREAM_STREAM:
            return _StreamJoin(step)
        case p.JoinForm.STREAM_TABLE:
            return _Lookup(step)
        case p.JoinForm.TABLE_TABLE:
            return _TableJoin(step)
    raise Unknown(step.form.value)


def _joined(step: p.Join, key: Key | None, left: Row | None, right: Row | None) -> Row:
    row: Row = {column.name: None for column in step.schema}
    row |= left or {}
    row |= right or {}
    keys = {column.name for column in step.schema if column.role is Role.KEY}
    for name in (*step.viable_keys, *([step.key] if step.key else [])):
        if name in keys and row[name] is None and key is not None:
            row[name] = key[0]
    return row


class _Sides:
    def __init__(self, step: p.Join) -> None:
        self.step = step
        self.left, self.right = step_of(step.left), step_of(step.right)

    def key(self, event: Event, *, is_left: bool) -> Any:
        row = event.row if event.row is not None else event.old
        if row is None:
            return event.key[0] if event.key else None
        return guarded(self.step.left_key if is_left else self.step.right_key, row)


class _Lookup(_Sides, Step):
    def __init__(self, step: p.Join) -> None:
        super().__init__(step)
        self.table: dict[Any, Row] = {}

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for each in self.right.feed(topic, event):
            key = self.key(each, is_left=False)
            self.table.pop(key, None)
            if each.row is not None:
                self.table[key] = each.row
        for each in self.left.feed(topic, event):
            if each.row is None:
                continue
            key = self.key(each, is_left=True)
            found = None if key is None else self.table.get(key)
            if found is None and (self.step.kind_of_join is JoinKind.INNER):
                continue
            yield Event((key,) if key is not None else None, self._row(key, each.row, found), each.time_ms)

    def _row(self, key: Any, left: Row, right: Row | None) -> Row:
        return _joined(self.step, None if key is None else (key,), left, right)


@dataclass
class _Kept:
    key: Any
    window: Window | None
    row: Row
    time_ms: int


class _StreamJoin(_Sides, Step):
    """A join of streams. Outer results are sent at once, or with a grace period once the window closes."""

    def __init__(self, step: p.Join) -> None:
        super().__init__(step)
        assert step.within is not None
        if step.kind_of_join is not JoinKind.INNER:
            raise Unknown("outer joins of streams")
        self.within = step.within
        self.now = -1
        self.kept: dict[bool, list[_Kept]] = {True: [], False: []}

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for is_left, side in ((True, self.left), (False, self.right)):
            for each in side.feed(topic, event):
                if each.row is not None:
                    yield from self._meet(each, each.row, is_left)

    def _meet(self, each: Event, row: Row, is_left: bool) -> Iterator[Event]:
        key, time = self.key(each, is_left=is_left), each.time_ms
        if key is None:
            return
        self.now = max(self.now, time)
        before, after = self.within.before_ms, self.within.after_ms
        grace = self.within.grace_ms if self.within.grace_ms is not None else DAY_MS
        low, high = (time - before, time + after) if is_left else (time - after, time + before)
        if self.within.grace_ms is not None and time + max(before, after) + grace < self.now:
            raise Unknown("late records of joins")
        for other in sorted(self.kept[not is_left], key=lambda kept: kept.time_ms):
            if (other.key, other.window) == (key, each.window) and low <= other.time_ms <= high:
                pair = (row, other.row) if is_left else (other.row, row)
                joined = _joined(self.step, (key,), *pair)
                yield Event((key,), joined, max(time, other.time_ms), each.window)
        self.kept[is_left].append(_Kept(key, each.window, row, time))


class _TableJoin(_Sides, Step):
    def __init__(self, step: p.Join) -> None:
        super().__init__(step)
        self.rows: dict[bool, dict[Any, tuple[Row, int]]] = {True: {}, False: {}}

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        for is_left, side in ((True, self.left), (False, self.right)):
            for each in side.feed(topic, event):
                key = self.key(each, is_left=is_left)
                old = self._result(key)
                self.rows[is_left].pop(key, None)
                if each.row is not None:
                    self.rows[is_left][key] = (each.row, each.time_ms)
                row = self._result(key)
                other = self.rows[not is_left].get(key)
                if other is None and (not self._is_alone(is_left) or (row is None and old is None)):
                    continue  # but a deletion of an absent row is passed on if the other side has a row
                time = max(each.time_ms, other[1]) if other is not None else each.time_ms
                yield Event((key,), row, time, None, old)

    def _is_alone(self, is_left: bool) -> bool:
        """Return whether a row of that side makes a result without the other side."""
        kind = self.step.kind_of_join
        return kind is JoinKind.FULL or (kind is JoinKind.LEFT and is_left)

    def _result(self, key: Any) -> Row | None:
        left, right = self.rows[True].get(key), self.rows[False].get(key)
        kind = self.step.kind_of_join
        if left is None and (right is None or kind is not JoinKind.FULL):
            return None
        if right is None and kind is JoinKind.INNER:
            return None
        return _joined(self.step, (key,), left[0] if left else None, right[0] if right else None)


# queries


def _known_types(schema: Sequence[Column]) -> None:
    """Raise Unknown for temporal types and decimals, whose rules of arithmetic differ from Python's."""
    known = (types.INTEGER, types.BIGINT, types.DOUBLE, types.STRING, types.BOOLEAN)
    for column in schema:
        if isinstance(column.type, types.Decimal) or (
            isinstance(column.type, types.Primitive) and column.type not in known
        ):
            raise Unknown(str(column.type))


class Query:
    """One query of a case: it takes records of topics and returns records of its sink."""

    def __init__(self, plan: p.Plan) -> None:
        assert isinstance(plan.root, p.Sink)
        self.target = plan.root.target
        if self.target.timestamp is not None:
            raise Unknown("timestamps of columns")
        _known_types(plan.root.schema)
        self.step = step_of(plan.root)

    def feed(self, topic: str, event: Event) -> Iterator[Event]:
        names = [c.name for c in self.target.columns if c.role is Role.VALUE]
        keys = [c.name for c in self.target.keys]
        for each in self.step.feed(topic, event):
            row = each.row
            key = each.key
            if row is not None and keys and key is not None:
                key = tuple(row[name] for name in keys)
            yield Event(key, None if row is None else {n: row[n] for n in names}, each.time_ms, each.window)


def run(plans: Sequence[p.Plan], records: Sequence[tuple[str, Event]]) -> Mapping[str, list[Event]]:
    """The records of each sink; those of one query are read by the others before the next record arrives."""
    queries = [Query(plan) for plan in plans]
    written: dict[str, list[Event]] = {query.target.topic: [] for query in queries}

    def pipe(topic: str, event: Event) -> None:
        for query in queries:
            for each in query.feed(topic, event):
                written[query.target.topic].append(each)
                pipe(query.target.topic, each)

    for topic, event in records:
        pipe(topic, event)
    return written
