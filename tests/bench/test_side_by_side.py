"""The comparison with Apache Kafka: its arithmetic, its report, its raw client on a node. No timings."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.bench.loadgen import Loadgen
from penstock.protocol.batch import check_batches
from penstock.protocol.compression import Codec
from penstock.testing import Cluster
from side_by_side.brokers import Penstock
from side_by_side.certificate import key_store
from side_by_side.data import Data
from side_by_side.figures import OURS, THEIRS, RowRuns, cpu_s_per_gb, records_per_s
from side_by_side.report import count, render
from side_by_side.results import Results, Run
from side_by_side.rows import HANDSHAKES, START, all_rows
from side_by_side.session import Measurement

ROW = "consume 1 KiB"
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None and shutil.which("gcc") is None, reason="needs a C compiler"
)


def measurement(records: int, busy: float = 1.0) -> Measurement:
    return Measurement(
        2.0,
        records=records,
        mb=records / 1000,
        p50_ms=1.0,
        p99_ms=2.0,
        p999_ms=3.0,
        broker_cpu_s=1.0,
        broker_busy=busy,
        core_busy=busy,
        resident_mb=50.0,
    )


def results(path: Path, *runs: Run) -> Results:
    return Results(path, {"processor": "a quick one"}, runs)


def line_of(page: str, row: str) -> str:
    return next(line for line in page.splitlines() if line.startswith(f"| {row} "))


def test_ratios_are_taken_within_a_round() -> None:
    runs = [
        Run(ROW, broker, round_, 1.0, measurement(records))
        for broker, round_, records in [
            (OURS, 1, 300),
            (THEIRS, 1, 100),
            (OURS, 2, 800),
            (THEIRS, 2, 200),
            (OURS, 3, 1),
        ]
    ]
    ahead = RowRuns(ROW, runs).ahead(records_per_s)
    assert ahead is not None
    assert (ahead.median, ahead.least, ahead.most) == (3.5, 3.0, 4.0)
    cheaper = RowRuns(ROW, runs).ahead(cpu_s_per_gb, less_is_better=True)
    assert cheaper is not None
    assert cheaper.median == pytest.approx(3.5)


def test_what_was_measured_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    kept = results(path, Run(ROW, OURS, 1, 0.5, measurement(10)))
    kept.add(Run(ROW, THEIRS, 1, 0.5, error="it fell over"))
    again = Results.load(path)
    assert again.runs == kept.runs
    assert again.machine == kept.machine
    assert again.measured(ROW, OURS, 1)
    assert not again.measured(ROW, THEIRS, 1), "what failed is run again"
    again.add(Run(ROW, THEIRS, 1, 0.5, measurement(5)))
    assert len(again.runs) == 2


@pytest.mark.parametrize(
    ("ours", "theirs", "shown"), [(1.0, 1.0, "| 2.00 |"), (0.5, 1.0, "| ≥ 2.00 |"), (1.0, 0.5, "| (2.00) |")]
)
def test_a_core_that_was_idle_qualifies_the_ratio(
    tmp_path: Path, ours: float, theirs: float, shown: str
) -> None:
    page = render(
        results(
            tmp_path / "results.json",
            Run(START, OURS, 1, 1.0, Measurement(0.5)),
            Run(ROW, OURS, 1, 1.0, measurement(200, ours)),
            Run(ROW, THEIRS, 1, 1.0, measurement(100, theirs)),
        )
    )
    assert shown in line_of(page, ROW)


@pytest.mark.parametrize(
    ("busy", "told"), [(1.0, "behind on consume 1 KiB (0.50)."), (0.5, "or more, on consume 1 KiB (0.50).")]
)
def test_rows_that_something_else_paced_are_told_apart(tmp_path: Path, busy: float, told: str) -> None:
    runs = [
        Run(ROW, OURS, 1, 1.0, measurement(100, busy)),
        Run(ROW, THEIRS, 1, 1.0, measurement(200)),
    ]
    page = render(results(tmp_path / "results.json", *runs))
    [line] = [line for line in page.splitlines() if line.startswith("- **records/s**")]
    assert line.endswith(told)


def test_a_row_that_failed_says_why(tmp_path: Path) -> None:
    runs = [Run(ROW, OURS, 1, 1.0, measurement(200)), Run(ROW, THEIRS, 1, 1.0, error="a | b\nmore")]
    page = render(results(tmp_path / "results.json", *runs))
    assert "| Apache Kafka | a / b |" in page
    assert "consume 10 KiB" not in page


def test_handshakes_have_a_table_of_their_own(tmp_path: Path) -> None:
    row = next(row.name for row in all_rows() if row.section == HANDSHAKES)
    runs = [Run(row, OURS, 1, 1.0, measurement(2000)), Run(row, THEIRS, 1, 1.0, measurement(500))]
    page = render(results(tmp_path / "results.json", *runs))
    lines = page.splitlines()
    at = lines.index(line_of(page, row))
    names, ours, theirs = ([cell.strip() for cell in lines[n].split("|")[2:-1]] for n in (at - 2, at, at + 1))
    shown = dict(zip(names, ours, strict=True))
    assert (shown["handshakes/s"], shown["CPU ms each"], shown["× less CPU"]) == ("1,000", "0.50", "4.00")
    assert dict(zip(names, theirs, strict=True))["CPU ms each"] == "2.00"
    assert row not in page[: page.index(f"## {HANDSHAKES}")], "the summary compares rows with records"


def test_names_of_rows_are_unique() -> None:
    names = [row.name for row in all_rows()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("value", "shown"), [(1_234_567, "1.23 M"), (123_456, "123 k"), (1_234, "1,234")])
def test_counts_are_short(value: float, shown: str) -> None:
    assert count(value) == shown


@pytest.mark.parametrize(
    "data", [Data(100), Data(1024, Codec.LZ4), Data(100, keys=2000), Data(10, records_per_batch=1)]
)
def test_batches_are_what_they_say(tmp_path: Path, data: Data) -> None:
    batches = check_batches(data.file(tmp_path).read_bytes())
    assert {batch.count for batch in batches} == {data.per_batch}
    assert {batch.compression for batch in batches} == {data.codec}


@needs_compiler
@pytest.mark.parametrize(
    "options",
    [
        {"acks": 0},
        {"acks": 1, "connections": 3, "per_request": 4},
        {"acks": -1, "idempotent": 1},
        {"rate": 500, "connections": 2},
    ],
    ids=str,
)
def test_what_the_raw_client_sends_it_reads_again(
    penstock_cluster: Cluster, tmp_path: Path, options: dict[str, int]
) -> None:
    data = Data(100)
    address = penstock_cluster.bootstrap_servers
    topic = create_topic(address, "sent-" + "-".join(map(str, options.values())))
    words = {"batches": data.file(tmp_path), "requests": 40, "partitions": 4, **options}
    sent = run_client(address, "produce", topic, **words)
    assert sent["requests"] == 40
    assert sent["records"] == 40 * options.get("per_request", 1) * data.per_batch
    for uniform in (0, 1):
        words = {"bytes": sent["bytes"], "partitions": 4, "uniform": uniform}
        read = run_client(address, "fetch", topic, **words)
        assert (read["records"], read["bytes"]) == (sent["records"], sent["bytes"])


@needs_compiler
def test_transactions_of_the_raw_client_are_committed(penstock_cluster: Cluster, tmp_path: Path) -> None:
    data = Data(100, records_per_batch=100)
    address = penstock_cluster.bootstrap_servers
    topic = create_topic(address, "committed")
    words = {"batches": data.file(tmp_path), "requests": 20, "partitions": 4, "connections": 2}
    sent = run_client(address, "transactions", topic, **words)
    assert sent["records"] == 2000
    read = run_client(address, "fetch", topic, bytes=sent["bytes"], partitions=4, isolation=1)
    assert read["records"] >= 2000


@pytest.fixture(scope="module")
def node_with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Penstock]:
    directory = tmp_path_factory.mktemp("tls")
    core = min(os.sched_getaffinity(0))
    with Penstock(directory / "node", core, key_store=key_store(directory / "certificate")) as node:
        yield node


@needs_compiler
@pytest.mark.parametrize(
    "options",
    [{"acks": 0}, {"acks": 1, "connections": 3, "per_request": 4}, {"rate": 500, "connections": 2}],
    ids=str,
)
def test_the_raw_client_encrypts(node_with_tls: Penstock, tmp_path: Path, options: dict[str, int]) -> None:
    data = Data(100)
    encrypted = f"127.0.0.1:{node_with_tls.tls_port}"
    topic = create_topic(node_with_tls.bootstrap, "encrypted-" + "-".join(map(str, options.values())))
    words = {"batches": data.file(tmp_path), "requests": 40, "partitions": 4, **options}
    sent = run_client(encrypted, "produce", topic, tls=1, **words)
    assert sent["records"] == 40 * options.get("per_request", 1) * data.per_batch
    for tls, address in ((1, encrypted), (0, node_with_tls.bootstrap)):
        for uniform in (0, 1):
            words = {"bytes": sent["bytes"], "partitions": 4, "uniform": uniform, "tls": tls}
            read = run_client(address, "fetch", topic, **words)
            assert (read["records"], read["bytes"]) == (sent["records"], sent["bytes"])


@needs_compiler
@pytest.mark.parametrize("tls", [0, 1])
def test_the_raw_client_connects_again_and_again(node_with_tls: Penstock, tls: int) -> None:
    address = f"127.0.0.1:{node_with_tls.tls_port}" if tls else node_with_tls.bootstrap
    made = run_client(address, "connect", "-", requests=20, connections=3, tls=tls)
    assert (made["records"], made["requests"]) == (20, 20)


@needs_compiler
def test_the_raw_client_says_why_there_is_no_tls(node_with_tls: Penstock) -> None:
    assert Loadgen().tls_missing() is None
    words = Loadgen().raw_command("connect", node_with_tls.bootstrap, "-", requests=1, tls=1)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "the TLS handshake failed" in done.stderr


def test_only_brokers_with_a_key_store_have_a_listener_with_tls() -> None:
    plain = Penstock(Path("/nowhere"), 0, 9092).settings()
    both = Penstock(Path("/nowhere"), 0, 9092, key_store=Path("/nowhere/key.pem"))
    assert "SSL" not in str(plain)
    assert both.settings()["listeners"].endswith(f",SSL://127.0.0.1:{both.tls_port}")
    assert both.settings()["ssl.keystore.location"] == "/nowhere/key.pem"


def create_topic(address: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, num_partitions=4, replication_factor=1)])[name].result(60)
    return name


def run_client(address: str, mode: str, topic: str, **options: object) -> dict[str, int]:
    words = Loadgen().raw_command(mode, address, topic, **options)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, int] = json.loads(done.stdout)
    return result
