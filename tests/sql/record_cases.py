"""Cases of whole queries in text files: statements, the records that come in, the records that go out.

A file below `cases/records` is a row of the language table: it begins with `row: NAME`, and its cases are

    == a name
    source: where the expectation comes from, unless it is our own
    partitions: orders=4
    CREATE STREAM s (id INT KEY, v INT, name STRING) WITH (KAFKA_TOPIC='s', FORMAT='JSON');
    CREATE STREAM big AS SELECT id, v FROM s WHERE v > 3;
    ---- in
    topic | key | value    | time
    s     | 1   | 3, "ann" | 0
    s     | -   | -        | 10
    ---- out
    topic | key | value    | time
    ...

`key` and `value` are the columns' values in the order of the source's schema, as JSON; `-` is a missing key,
or a tombstone. Bytes are base64, temporal types are their numbers at run time (milliseconds, days). After
`raw ` follows the text of the record itself, which no serde of ours has read or written. A column `window`
holds `START..END` in milliseconds, `partition` the partition that a record is read from or written to,
`headers` a JSON object of texts. If all records have the same topic, the column `topic` may be left out.
`---- out T U` compares those topics alone; without names all topics that queries write are compared, each
with its records in their order.

If the last statement is wrong, `---- refused` and a part of the message replace `in` and `out`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

from penstock.sql.catalog import Column, DataSource, Role
from penstock.sql.language import types
from penstock.sql.language.types import SqlType

RECORDS = Path(__file__).parent / "cases" / "records"


@dataclass(frozen=True)
class CaseRecord:
    """One line of a table, with its cells as they are written."""

    topic: str
    key: str
    value: str
    time_ms: int
    window: tuple[int, int] | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class RecordCase:
    name: str
    row: str
    sql: str
    inputs: tuple[CaseRecord, ...] = ()
    outputs: tuple[CaseRecord, ...] = ()
    topics: tuple[str, ...] = ()
    source: str = ""
    partitions: dict[str, int] = field(default_factory=dict)
    refused: str | None = None

    def __str__(self) -> str:
        return self.name


def record_cases() -> list[RecordCase]:
    return [case for path in sorted(RECORDS.rglob("*.txt")) for case in cases_in(path)]


def cases_in(path: Path) -> Iterator[RecordCase]:
    head, *blocks = path.read_text().split("\n== ")
    row = head.removeprefix("row: ").split("\n", 1)[0]
    for block in blocks:
        name, body = block.split("\n", 1)
        yield _case(f"{path.relative_to(RECORDS).with_suffix('')}: {name}", row, body)


def _case(name: str, row: str, body: str) -> RecordCase:
    settings: dict[str, str] = {}
    while body.startswith(("source: ", "partitions: ", "row: ")):
        line, body = body.split("\n", 1)
        setting, _, text = line.partition(": ")
        settings[setting] = text
    sql, *sections = body.split("\n---- ")
    inputs: list[CaseRecord] = []
    outputs: list[CaseRecord] = []
    topics: tuple[str, ...] = ()
    refused = None
    for section in sections:
        title, _, text = section.partition("\n")
        match title.split():
            case ["in", *named]:
                inputs = _table(text, named)
            case ["out", *named]:
                outputs, topics = _table(text, named), tuple(named)
            case ["refused"]:
                refused = text.strip()
            case _:
                raise ValueError(f"{name}: found ---- {title}, expected in, out or refused")
    counts = dict(pair.split("=") for pair in settings.get("partitions", "").split())
    return RecordCase(
        name,
        settings.get("row", row),
        sql,
        tuple(inputs),
        tuple(outputs),
        topics,
        settings.get("source", ""),
        {topic: int(count) for topic, count in counts.items()},
        refused,
    )


def _table(text: str, named: Sequence[str]) -> list[CaseRecord]:
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if not lines:
        return []
    names = [cell.strip() for cell in lines[0].split("|")]
    found = []
    for line in lines[1:]:
        cells = dict(zip(names, (cell.strip() for cell in _split(line, len(names))), strict=True))
        bounds = cells.get("window", "")
        start, _, end = bounds.partition("..")
        headers = json.loads(cells.get("headers") or "{}")
        found.append(
            CaseRecord(
                cells.get("topic") or named[0],
                cells.get("key", "-"),
                cells["value"],
                int(cells["time"]),
                (int(start), int(end)) if bounds else None,
                int(cells["partition"]) if cells.get("partition") else None,
                tuple((key, value.encode()) for key, value in headers.items()),
            )
        )
    return found


def _split(line: str, count: int) -> list[str]:
    """Split a line into its cells; a bar inside quotes is part of its cell."""
    cells, quoted = [""], False
    for at, character in enumerate(line):
        if character == '"' and line[at - 1 : at] != "\\":
            quoted = not quoted
        if character == "|" and not quoted:
            cells.append("")
        else:
            cells[-1] += character
    if len(cells) != count:
        raise ValueError(f"found {len(cells)} cells, expected {count}: {line}")
    return cells


# cells and values


def value_columns(source: DataSource) -> tuple[Column, ...]:
    return tuple(column for column in source.columns if column.role is Role.VALUE)


def values_of(cell: str, columns: Sequence[Column]) -> tuple[Any, ...] | None:
    """The values of a cell as they are at run time."""
    if cell == "-":
        return None
    read = json.loads(f"[{cell}]", parse_float=Number)
    if len(read) != len(columns):
        raise ValueError(
            f"found {len(read)} values in {cell}, expected {len(columns)}: {[c.name for c in columns]}"
        )
    return tuple(from_json(value, column.type) for value, column in zip(read, columns, strict=True))


def cell_of(values: Sequence[Any] | None, columns: Sequence[Column]) -> str:
    if values is None:
        return "-"
    pairs = zip(values, columns, strict=True)
    return ", ".join(json_text(to_json(value, column.type)) for value, column in pairs)


def from_json(value: Any, type_: SqlType) -> Any:
    if value is None:
        return None
    match type_:
        case types.Array(element):
            return [from_json(each, element) for each in value]
        case types.Map(_, of):
            return {key: from_json(each, of) for key, each in value.items()}
        case types.Struct(fields):
            return {name: from_json(value.get(name), of) for name, of in fields}
        case types.Decimal(_, scale):
            return Number(value).quantize(Number(1).scaleb(-scale))
        case types.DOUBLE:
            return float(value)
        case types.BYTES:
            return base64.b64decode(value)
    return value


def to_json(value: Any, type_: SqlType) -> Any:
    if value is None:
        return None
    match type_:
        case types.Array(element):
            return [to_json(each, element) for each in value]
        case types.Map(_, of):
            return {key: to_json(each, of) for key, each in value.items()}
        case types.Struct(fields):
            return {name: to_json(value[name], of) for name, of in fields}
        case types.BYTES:
            return base64.b64encode(value).decode()
    return value


def json_text(value: Any) -> str:
    """Write JSON with all digits of decimals."""
    match value:
        case Number():
            return str(value)
        case list():
            return f"[{', '.join(map(json_text, value))}]"
        case dict():
            return f"{{{', '.join(f'{json.dumps(key)}: {json_text(each)}' for key, each in value.items())}}}"
        case float() if value == int(value) if value == value and abs(value) < 1e15 else False:
            return f"{value:.1f}"
    return json.dumps(value, ensure_ascii=False)


# writing


def written(case: RecordCase) -> str:
    """The text of a case in its file."""
    lines = [f"== {case.name}"]
    lines += [f"source: {case.source}"] if case.source else []
    if case.partitions:
        lines.append("partitions: " + " ".join(f"{topic}={n}" for topic, n in case.partitions.items()))
    lines += [case.sql.strip(), "---- in", *table_lines(case.inputs)]
    lines += [" ".join(["---- out", *case.topics]), *table_lines(case.outputs)]
    return "\n".join(lines) + "\n"


def table_lines(records: Sequence[CaseRecord]) -> list[str]:
    names = ["topic", "key", "value", "time"]
    names += [name for name in ("window", "partition", "headers") if any(_cell(r, name) for r in records)]
    rows = [names, *([_cell(record, name) for name in names] for record in records)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(names))]
    return [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _cell(record: CaseRecord, name: str) -> str:
    match name:
        case "time":
            return str(record.time_ms)
        case "window":
            return "" if record.window is None else f"{record.window[0]}..{record.window[1]}"
        case "partition":
            return "" if record.partition is None else str(record.partition)
        case "headers":
            return json.dumps({k: v.decode() for k, v in record.headers}) if record.headers else ""
    return str(getattr(record, name))
