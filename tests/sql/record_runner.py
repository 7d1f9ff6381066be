"""Run the cases of `record_cases`: plans become apps, which pass records to each other as by a broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oracle import Event, Unknown, run
from record_cases import CaseRecord, RecordCase, cell_of, value_columns, values_of

from penstock.sql import parse_script
from penstock.sql.analysis import analyze
from penstock.sql.analysis.plan import Plan, Sink
from penstock.sql.catalog import Catalog, DataSource
from penstock.sql.formats import key_serde, value_serde
from penstock.sql.language.statements import SetProperty
from penstock.streams import App, TopologyTest
from penstock.topology.serdes import Window, Windowed

PARTITIONS = 1


def analyzed(sql: str) -> tuple[Catalog, list[tuple[Plan, Catalog, dict[str, str]]]]:
    """The catalogue after all statements, and each query with the catalogue and settings at its start."""
    catalog, plans, settings = Catalog(), [], dict[str, str]()
    for each in parse_script(sql):
        if isinstance(each.statement, SetProperty):
            settings[each.statement.name] = each.statement.value
        analysis = analyze(each.statement, catalog, sql, each.place.offset)
        if analysis.plan is not None:
            plans.append((analysis.plan, analysis.catalog, dict(settings)))
        catalog = analysis.catalog
    return catalog, plans


def by_topic(catalog: Catalog, plans: Sequence[Plan]) -> dict[str, DataSource]:
    """The source whose schema applies to each topic's records: the first one over it."""
    found: dict[str, DataSource] = {}
    for source in (*catalog.sources.values(), *(p.root.target for p in plans if isinstance(p.root, Sink))):
        found.setdefault(source.topic, source)
    return found


def sinks_of(plans: Sequence[Plan]) -> list[str]:
    found = [plan.root.target.topic for plan in plans if isinstance(plan.root, Sink)]
    return list(dict.fromkeys(found))


class Bytes:
    """The conversion of one source's cells to bytes and back."""

    def __init__(self, source: DataSource) -> None:
        settings = dict(source.settings)
        self.columns = value_columns(source)
        self.keys = source.keys
        self.window = source.window
        self.key = key_serde(source.keys, source.key_format, settings, source.window)
        self.value = value_serde(self.columns, source.value_format, settings)

    def of(self, record: CaseRecord) -> tuple[bytes | None, bytes | None]:
        key: Any = values_of(record.key, self.keys) if not record.key.startswith("raw ") else None
        if record.window is not None and key is not None:
            key = Windowed(key, Window(*record.window))
        value = None if record.value.startswith("raw ") else values_of(record.value, self.columns)
        return (
            self._bytes(record.key, self.key, key),
            self._bytes(record.value, self.value, value),
        )

    @staticmethod
    def _bytes(cell: str, serde: Any, values: Any) -> bytes | None:
        if cell.startswith("raw "):
            return cell[4:].encode()
        return None if values is None else serde.serialize(values)

    def shown(
        self, topic: str, key: bytes | None, value: bytes | None, time_ms: int, like: CaseRecord | None
    ) -> CaseRecord:
        """Write a record as a case does, and as raw text if the expected record is raw."""
        window = None
        if like is not None and like.key.startswith("raw "):
            shown_key = f"raw {'' if key is None else key.decode(errors='replace')}"
        else:
            keys = None if key is None else self.key.deserialize(key)
            if isinstance(keys, Windowed):
                window = (keys.window.start_ms, keys.window.end_ms)
                keys = keys.key
            shown_key = cell_of(keys, self.keys)
        if like is not None and like.value.startswith("raw "):
            shown_value = f"raw {'' if value is None else value.decode(errors='replace')}"
        else:
            shown_value = cell_of(None if value is None else self.value.deserialize(value), self.columns)
        return CaseRecord(topic, shown_key, shown_value, time_ms, window)


class Queries:
    """All queries of a case, each in a TopologyTest of its own."""

    def __init__(
        self,
        plans: Sequence[tuple[Plan, Catalog, dict[str, str]]],
        partitions: Mapping[str, int],
    ) -> None:
        from penstock.sql.planning import build_app

        self.written: dict[str, list[Any]] = {}
        self._tests: list[tuple[TopologyTest, set[str], set[str]]] = []
        for number, (plan, catalog, settings) in enumerate(plans):
            made = build_app(plan, query_id=f"Q_{number}", catalog=catalog, settings=settings)
            self.add(made.app, sinks_of([plan]), partitions)

    def add(self, app: App, sinks: Collection[str], partitions: Mapping[str, int]) -> None:
        topology = app.topology()
        read = {t for part in topology.sub_topologies for t in part.source_topics}
        read |= set(topology.globals)
        test = TopologyTest(app, partitions=dict(partitions))
        self._tests.append((test, read - set(topology.repartitions), set(sinks)))

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, at: CaseRecord | Any) -> None:
        for test, read, sinks in self._tests:
            if topic not in read:
                continue
            before = {sink: len(test._written.get(sink, ())) for sink in sinks}
            test.input(topic).pipe_bytes(
                key, value, timestamp=at.time_ms, headers=tuple(at.headers), partition=at.partition
            )
            for sink in sinks:
                for output in list(test._written.get(sink, ()))[before[sink] :]:
                    self._sent(output)

    def _sent(self, output: Any) -> None:
        topic, partition, key, value, time_ms, headers = output
        self.written.setdefault(topic, []).append(output)
        at = CaseRecord(topic, "", "", time_ms, None, partition, tuple(headers))
        self.pipe(topic, key, value, at)


def outputs_of(case: RecordCase) -> list[CaseRecord]:
    """The records that the queries of a case write, by topic in the order of the topics in the case."""
    catalog, plans = analyzed(case.sql)
    sources = by_topic(catalog, [plan for plan, _, _ in plans])
    bytes_of = {topic: Bytes(source) for topic, source in sources.items()}
    queries = Queries(plans, case.partitions)
    for record in case.inputs:
        key, value = bytes_of[record.topic].of(record)
        queries.pipe(record.topic, key, value, record)
    shown = []
    for topic in topics_of(case, [plan for plan, _, _ in plans]):
        expected = [record for record in case.outputs if record.topic == topic]
        for at, (_, partition, key, value, time_ms, headers) in enumerate(queries.written.get(topic, ())):
            like = expected[at] if at < len(expected) else None
            record = bytes_of[topic].shown(topic, key, value, time_ms, like)
            if like is not None and like.partition is not None:
                record = replace(record, partition=partition)
            if like is not None and like.headers:
                record = replace(record, headers=tuple(headers))
            shown.append(record)
    return shown


def topics_of(case: RecordCase, plans: Sequence[Plan]) -> list[str]:
    return list(case.topics) or sinks_of(plans)


def expected_of(case: RecordCase) -> list[CaseRecord]:
    """The expected records in the same order, with cells as `cell_of` writes them."""
    catalog, plans = analyzed(case.sql)
    sources = by_topic(catalog, [plan for plan, _, _ in plans])
    found = []
    for topic in topics_of(case, [plan for plan, _, _ in plans]):
        source = sources[topic]
        found += [normal(record, source) for record in case.outputs if record.topic == topic]
    stray = {record.topic for record in case.outputs} - {record.topic for record in found}
    assert not stray, f"no query writes {sorted(stray)}"
    return found


def normal(record: CaseRecord, source: DataSource) -> CaseRecord:
    """The record with cells as `cell_of` writes them."""
    key, value = record.key, record.value
    if not key.startswith("raw "):
        key = cell_of(values_of(key, source.keys), source.keys)
    if not value.startswith("raw "):
        columns = value_columns(source)
        value = cell_of(values_of(value, columns), columns)
    return replace(record, key=key, value=value)


# the oracle


def oracle_of(case: RecordCase) -> list[CaseRecord]:
    """The records according to the oracle; raises `Unknown` if it cannot compute them."""
    if any(
        cell.startswith("raw ")
        for record in (*case.inputs, *case.outputs)
        for cell in (record.key, record.value)
    ):
        raise Unknown("raw records")
    if any(record.headers for record in case.inputs) or case.partitions:
        raise Unknown("headers, partitions")
    catalog, plans = analyzed(case.sql)
    if any(settings for _, _, settings in plans):
        raise Unknown("properties")
    sources = by_topic(catalog, [plan for plan, _, _ in plans])
    records = [(record.topic, _event(record, sources[record.topic])) for record in case.inputs]
    written = run([plan for plan, _, _ in plans], records)
    found = []
    for topic in topics_of(case, [plan for plan, _, _ in plans]):
        source = sources[topic]
        columns = value_columns(source)
        for event in written[topic]:
            row = None if event.row is None else tuple(event.row[column.name] for column in columns)
            keys = event.key if source.keys else None
            found.append(
                CaseRecord(
                    topic, cell_of(keys, source.keys), cell_of(row, columns), event.time_ms, event.window
                )
            )
    return found


def _event(record: CaseRecord, source: DataSource) -> Event:
    columns = value_columns(source)
    values = values_of(record.value, columns)
    row = None if values is None else dict(zip((c.name for c in columns), values, strict=True))
    return Event(values_of(record.key, source.keys), row, record.time_ms, record.window)
