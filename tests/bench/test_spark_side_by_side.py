"""The comparison with Spark's own connector: its arithmetic, its report, one small run. No timings."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import penstock
from penstock.testing import Cluster
from side_by_side.figures import OURS, THEIRS, RowRuns
from side_by_side.page import read_parts, write_part
from side_by_side.results import Results, Run
from side_by_side.session import Measurement, RunFailed
from spark_side_by_side.comparison import Comparison
from spark_side_by_side.data import KEY_BYTES, RECORD_BYTES, Data, fill
from spark_side_by_side.process_tree import ProcessTree, Sample, Sampler, TreeCost, cpu_at
from spark_side_by_side.report import cost, render, rows_per_cpu_s
from spark_side_by_side.rows import COST, THROUGHPUT, Row, all_rows
from spark_side_by_side.spark_process import Batch, steady
from spark_side_by_side.workloads import BATCH_MS, BESIDE_MS, CPU_S, ExactlyOnceCost, Throughput

SPIN = "import time\nend = time.process_time() + 0.33\nwhile time.process_time() < end: pass"
"""Spins a little longer than the checks below expect, because the kernel counts CPU time in whole ticks."""


def measurement(records: int, cpu_s: float) -> Measurement:
    return Measurement(2.0, records=records, facts={CPU_S: cpu_s, BATCH_MS: 100.0})


def line_of(page: str, row: str) -> list[str]:
    line = next(line for line in page.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


# --- measurements ---


def test_a_tree_counts_children_that_have_ended() -> None:
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SPIN!r}])"
    parent = [sys.executable, "-c", f"{child}\nprint('done', flush=True)\nsys.stdin.read()"]
    with subprocess.Popen(parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        cost = ProcessTree(process.pid).cost()
        process.communicate()
    assert cost.cpu_s >= 0.3
    assert cost.resident_bytes > 1e6
    with pytest.raises(ProcessLookupError):
        ProcessTree(process.pid).cost()


def test_a_tree_counts_children_that_run() -> None:
    child = f"{SPIN}\nprint(1, flush=True)\ntime.sleep(60)"
    parent = ["sh", "-c", f'"$0" -c "{child}"; true', sys.executable]
    with subprocess.Popen(parent, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with Sampler(ProcessTree(process.pid)) as sampler:
            assert sampler.peak_bytes > 5e6, "the interpreter, not the shell alone"
        assert ProcessTree(process.pid).cost().cpu_s >= 0.3
        subprocess.run(["kill", "--", f"-{process.pid}"], check=True)


def test_what_a_child_has_spent_counts_on_where_nobody_waits_for_it() -> None:
    child = f"{SPIN}\nprint('spent', flush=True)\ninput()"
    parent = f"""
import signal, subprocess, sys, time
subprocess.run([sys.executable, "-c", {SPIN!r}])
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdin=subprocess.PIPE)
input()
child.communicate(b"end")
print("ended", flush=True)
input()
"""
    words = [sys.executable, "-c", parent]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "spent\n"
        tree = ProcessTree(process.pid)
        before_s = tree.cost().cpu_s
        assert before_s >= 0.5
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
        assert tree.cost().cpu_s >= before_s
        process.communicate("go on\n")


def test_processor_time_is_taken_between_samples_in_proportion() -> None:
    samples = [
        Sample(time_s, TreeCost(cpu_s, 0)) for time_s, cpu_s in ((10.0, 1.0), (11.0, 3.0), (12.0, 3.0))
    ]
    assert [cpu_at(samples, at) for at in (9.0, 10.25, 11.5, 13.0)] == [1.0, 1.5, 3.0, 3.0]


def test_the_first_batches_and_empty_ones_do_not_count() -> None:
    now_s = time.time()
    times_and_rows = [(0, 0), (1, 500), (2, 100), (4, 300), (9, 0)]
    batches = [Batch(now_s + began_s, 1000.0, rows, {}) for began_s, rows in times_and_rows]
    with Sampler(ProcessTree(1)) as sampler:
        found = steady(batches, sampler, leave_out=1)
    assert (found.rows, round(found.seconds, 3), found.batch_ms) == (400, 3.0, 1000.0)
    with pytest.raises(RunFailed, match="3 batches had rows, expected more than 3"):
        steady(batches, sampler, leave_out=3)


# --- reports ---


def test_ratios_and_costs(tmp_path: Path) -> None:
    runs = [
        Run("source → noop", OURS, 1, 1.0, measurement(4_000_000, 2.0)),
        Run("source → noop", THEIRS, 1, 1.0, measurement(2_000_000, 4.0)),
        Run("batches of 10 rows", OURS, 1, 1.0, Measurement(1.0, facts={BATCH_MS: 66.0, BESIDE_MS: 60.0})),
        Run("batches of 10 rows", THEIRS, 1, 1.0, Measurement(1.0, facts={BATCH_MS: 50.0, BESIDE_MS: 50.0})),
        Run("source → sink", OURS, 1, 1.0, error="it | fell\nover"),
    ]
    page = render(Results(tmp_path / "results.json", {"processor": "a quick one"}, runs))
    assert line_of(page, "source → noop") == [
        "source → noop", "Penstock", "2.00 M", "2.00 M", "1.00", "100", "2.00", "4.00",
    ]  # fmt: skip
    assert line_of(page, "batches of 10 rows")[2:] == ["60", "66", "+10.0%", "+6.0"]
    assert line_of(page, "source → sink")[:3] == ["source → sink", "Penstock", "it / fell"]
    assert "windowed count" not in page, "nobody has measured it"
    ahead = RowRuns("source → noop", runs).ahead(rows_per_cpu_s)
    assert ahead is not None
    assert ahead.median == 4
    assert cost(Measurement(1.0, facts={BATCH_MS: 50.0, BESIDE_MS: 50.0})) is None


def test_each_benchmark_writes_its_part_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    write_part(page, "make a", "# A\n\ntext\n")
    write_part(page, "make b", "# B\n")
    write_part(page, "make a", "# A\n\nother text\n")
    assert read_parts(page.read_text()) == {"make a": "# A\n\nother text\n", "make b": "# B\n"}
    assert page.read_text().count("<!--") == 2


def test_names_of_rows_are_unique() -> None:
    names = [row.name for row in all_rows()]
    assert len(set(names)) == len(names)


# --- runs ---


@pytest.mark.parametrize("data", [Data(50, 3000), Data(100, 100, each_key_once=True)])
def test_topics_hold_what_they_say(penstock_cluster: Cluster, data: Data) -> None:
    topic = f"filled-{data.records}"
    servers = penstock_cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic].result(60)
    fill(servers, topic, 2, data)
    found = penstock.read(topic, servers).to_table()
    keys, values, partitions = (found[name].to_pylist() for name in ("key", "value", "partition"))
    assert len(keys) == data.records
    assert len(set(keys)) == data.keys
    assert {len(key) for key in keys} == {KEY_BYTES}
    assert {len(value) for value in values} == {RECORD_BYTES - KEY_BYTES}
    assert all(value.startswith(b"region-") for value in values)
    assert set(partitions) == {0, 1}
    assert len(set(zip(keys, partitions, strict=True))) == data.keys, "a key has one partition"


@pytest.mark.spark
@pytest.mark.skipif("PENSTOCK_CLUSTERS" not in os.environ, reason="PENSTOCK_CLUSTERS is not set")
def test_a_small_run(tmp_path: Path) -> None:
    """It runs Spark sessions of its own, one after the other, which takes a minute."""
    few = Data(20, 1000)
    rows = [
        Row(THROUGHPUT, "nobody knows", Throughput("read", few, leave_out=99), (OURS,)),
        Row(COST, "once", ExactlyOnceCost("copy", few, leave_out=0, has_target=True), (OURS, THEIRS)),
    ]
    results = Results(tmp_path / "results.json", {})
    told: list[str] = []
    Comparison(rows, results, tmp_path, (), 0.0005, (OURS,), told.append, warm_up=None).run(1)
    by_row = {run.row: run for run in results.runs}
    assert set(by_row) == {"nobody knows", "once"}, told
    found = by_row["once"].measurement
    assert found is not None, by_row["once"].error
    assert found.records == 1000
    assert 0 < found.facts[CPU_S] < 60
    assert found.facts[BATCH_MS] != found.facts[BESIDE_MS], "both ways of writing were measured"
    error = by_row["nobody knows"].error
    assert error is not None
    assert error.endswith("batches had rows, expected more than 99")
    assert not list(tmp_path.glob("spark-*")), "what Spark left is removed"
