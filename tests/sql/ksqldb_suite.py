"""ksqlDB's own tests of queries, run by our engine: `python tests/sql/ksqldb_suite.py DIRECTORY [WORD ...]`.

DIRECTORY holds the JSON files of its ``query-validation-tests`` (ksqlDB's repository has them below
``ksqldb-functional-tests/src/test/resources``); if words are given, only cases with one of them in their name
are run. Each query runs in a `TopologyTest`. The script prints the cases that differ and how; it exits with 1
if any of them is not in `KNOWN_DIFFERENCES`.

A case that expects an exception has to be refused; the text of the refusal is our own.
"""

from __future__ import annotations

import re
import sys
import traceback
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where the registry is

from ksqldb_records import Differs, sides_of
from ksqldb_service import Case, Service, cases_in
from record_cases import CaseRecord
from record_runner import Queries

from penstock.sql import parse_script
from penstock.sql.catalog import DataSource, Role
from penstock.sql.language import statements as s
from small_registry import SmallRegistry

_KEYS = (s.Constraint.KEY, s.Constraint.PRIMARY_KEY)
_OF_THEIR_JAR = re.compile(
    r"(?i)\b(WHENCONDITION|WHENRESULT|BAD_UDF|TEST_UD\w+|THROWING_UDTF|TOSTRUCT|[A-Z_]+_ARG)\("
)
"""Functions that ksqlDB's tests have in a jar of their own."""
_WINDOW_AT_0 = "a window that begins in 1970, at 0, is told"
_PSEUDO_COLUMNS = "SELECT * has no pseudo columns of both sides"
KNOWN_DIFFERENCES = {
    "suppress: should include out of order events before window end plus grace period passes": _WINDOW_AT_0,
    "suppress: should drop out of order event after window end plus grace period passes": _WINDOW_AT_0,
    "suppress: should handle null values": _WINDOW_AT_0,
    "suppress: should support final results for tumbling windows": _WINDOW_AT_0,
    "suppress: should support final results for hopping windows": _WINDOW_AT_0,
    "suppress: should suppress multiple keys": _WINDOW_AT_0,
    "suppress: should suppress after a filter WHERE clause": _WINDOW_AT_0,
    "partition-by: only key column - select star - with join on keys": _PSEUDO_COLUMNS,
    "partition-by: only key column - select star - with join on value columns": _PSEUDO_COLUMNS,
    "group-by: windowed join with window bounds": "a fault of ksqlDB (5931): the query is right",
    "reduce-map: reduce map with double": "entries come as they are written, there as Java hashes their keys",
    "select: key missing from projection -- new planner": "ksqlDB's new planner is not there",
    "sink-partitions-replicas: Use the legacy default sink properties for the sink topic if default "
    "partitions and replicas were set": "ksql.sink.partitions is none of our properties",
}
"""Cases in which our results differ, and why."""
_JAR = "they call functions of a jar of ksqlDB's tests"


def run(case: Case, registry: SmallRegistry | None) -> None:
    """Run the case; raises Differs, or any error of the engine."""
    expected = case.content.get("expectedException")
    service = Service(case, registry)
    try:
        for statement in case.statements:
            service.run(statement)
        written = _outputs(service, case)
    except (AssertionError, AttributeError, KeyError, TypeError):
        raise
    except Exception:
        if expected is not None:
            return
        raise
    if expected is not None:
        raise Differs(f"found nothing wrong, expected {expected.get('message')}")
    _expect_outputs(service, case, written)
    for wanted in case.content.get("post", {}).get("sources", []):
        _expect_source(service, wanted)


def _outputs(service: Service, case: Case) -> Mapping[str, list[Any]]:
    """The records that the queries write, by topic."""
    queries = Queries([], {})
    for query in service.queries():
        queries.add(query.planned.app, [query.sink.topic], {})
    for record in case.content.get("inputs", []):
        topic = record["topic"]
        source = service.read_as(topic)
        if source is None:
            continue
        of_key, of_value = sides_of(source, service.registry_url)
        key = of_key.bytes_of(record.get("key"), record.get("window"))
        at = CaseRecord(topic, "", "", record.get("timestamp", 0), headers=_headers(record))
        queries.pipe(topic, key, of_value.bytes_of(record["value"]), at)
    return queries.written


def _headers(record: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    given = [(each["KEY"], each["VALUE"]) for each in record.get("headers") or ()]
    return tuple((key, None if value is None else b64decode(value)) for key, value in given)


def _expect_outputs(service: Service, case: Case, written: Mapping[str, list[Any]]) -> None:
    wanted: dict[str, list[Any]] = {}
    for record in case.content.get("outputs", []):
        wanted.setdefault(case.text(record["topic"]), []).append(record)
    for topic, records in wanted.items():
        if "repartition" in topic or "changelog" in topic:
            continue
        source = service.written_as(topic) or service.read_as(topic)
        if source is None:
            raise Differs(f"found nothing that writes to {topic}")
        found = written.get(topic, [])
        for number, record in enumerate(records[: len(found)]):
            try:
                _expect_record(source, service.registry_url, record, found[number])
            except Differs as error:
                raise Differs(f"{topic}[{number}]: {error}") from None
        if len(found) != len(records):
            raise Differs(f"{topic}: found {len(found)} records, expected {len(records)}")


def _expect_record(
    source: DataSource, registry_url: str | None, wanted: Mapping[str, Any], found: Any
) -> None:
    _, _, key, value, time_ms, _ = found
    of_key, of_value = sides_of(source, registry_url)
    if "key" in wanted:
        of_key.expect(wanted["key"], key, wanted.get("window"))
    of_value.expect(wanted["value"], value)
    if wanted.get("timestamp", time_ms) != time_ms:
        raise Differs(f"found the time {time_ms}, expected {wanted['timestamp']}")


def _expect_source(service: Service, wanted: Mapping[str, Any]) -> None:
    catalog = service.state.catalog
    found = catalog.sources.get(wanted["name"])
    if found is None or found.kind.value.lower() != wanted["type"].lower():
        kind = "nothing" if found is None else f"the {found.kind.value}"
        raise Differs(f"found {kind}, expected the {wanted['type']} {wanted['name']}")
    if not wanted.get("schema"):
        return
    [parsed] = parse_script(f"CREATE {wanted['type']} X ({wanted['schema']}) WITH (kafka_topic='x');")
    assert isinstance(parsed.statement, s.CreateSource)
    theirs = {
        (each.name, str(catalog.resolved(each.type)), each.constraint in _KEYS)
        for each in parsed.statement.columns
    }
    ours = {(each.name, str(each.type), each.role is Role.KEY) for each in found.columns}
    if theirs != ours:
        raise Differs(f"found the columns {sorted(ours - theirs)}, expected {sorted(theirs - ours)}")


def outcome(case: Case) -> str:
    """Return "passed", or why the case failed."""
    if _OF_THEIR_JAR.search(" ".join(case.statements)):
        return f"left out: {_JAR}"
    with ExitStack() as stack:
        registry = stack.enter_context(SmallRegistry().running()) if case.asks_a_registry else None
        try:
            run(case, registry)
        except Differs as error:
            reason = str(error)
        except Exception as error:
            reason = "".join(traceback.format_exception_only(error)).strip()
        else:
            return "passed"
    known = KNOWN_DIFFERENCES.get(case.name)
    return f"failed: {reason}" if known is None else f"known to differ: {known}"


def main(directory: str, *words: str) -> int:
    counts: Counter[str] = Counter()
    for case in cases_in(Path(directory), words):
        found, _, reason = outcome(case).partition(": ")
        counts[found] += 1
        if found == "failed":
            print(f"{case.name}\n    {reason}", flush=True)
    totals = (f"{counts[each]} {each}" for each in ("passed", "failed", "known to differ", "left out"))
    print(f"{', '.join(totals)}: {_JAR}")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
