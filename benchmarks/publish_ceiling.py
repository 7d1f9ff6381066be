"""The rate at which a driver publishes staged batches with `penstock.spark.sink`, on one node.

    python benchmarks/publish_ceiling.py [--rounds 5]

Without Spark: record batches are staged as tasks do it, and published as `commit()` does it, with the marker
and a group's offset in the same transaction. The best round counts; "CPU" is that of the publishing process.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Client
from penstock.client.connections.metadata import TopicPartition
from penstock.client.producing.producer import ProducerConfig
from penstock.protocol.records import Record, encode_batch
from penstock.spark.sink.encoding import EncodedBatch
from penstock.spark.sink.locations import Location
from penstock.spark.sink.publisher import Content, Publication, Publisher
from penstock.spark.sink.staged import INLINE_BYTES, Run, Stage, TaskStaged, partitions_of
from penstock.testing import Cluster

PARTITIONS: Final = 4
TASKS: Final = 4
VALUE: Final = os.urandom(100)


class Case(NamedTuple):
    """The data that each task has staged: ``batches`` of ``records`` of 100 bytes."""

    name: str
    batches: int
    records: int


CASES: Final = (
    Case("200 MB in record batches of 512 KiB", 100, 4_700),
    Case("200,000 records in record batches of 512 KiB", 11, 4_700),
    Case("20 MB in record batches of 2 KiB", 2_000, 20),
    Case("40 records", 1, 10),
)


def staged(case: Case, staging: Location, topic: str) -> list[TaskStaged]:
    data = encode_batch([Record(i, 1, None, VALUE) for i in range(case.records)], transactional=True)
    reports = []
    for task in range(TASKS):
        stage = Stage(staging, f"{task}-{task}", INLINE_BYTES)
        for number in range(case.batches):
            stage.add(EncodedBatch(topic, (task + number) % PARTITIONS, bytearray(data)))
        reports.append(stage.finish(Run("query", "run", 0), case.records * case.batches))
    return reports


def measure(case: Case, client: Client, rounds: int, directory: Path) -> str:
    topic = f"out-{case.batches}-{case.records}"
    client.require_topics([topic], create=True)
    staging = Location.open(str(directory / topic), "staging")
    reports = staged(case, staging, topic)
    size_bytes = sum(size for report in reports for _, _, size in report.index)
    publisher = Publisher(client, ProducerConfig(), topic, topic, 60_000)
    best: tuple[float, float] = (float("inf"), 0.0)
    for number in range(rounds):
        content = Content(
            partitions_of(reports),
            lambda: chain.from_iterable(report.batches(staging) for report in reports),
            {f"group-{topic}": {TopicPartition(topic, 0): number}},
        )
        began_s, cpu_s = time.perf_counter(), time.process_time()
        publisher.publish(Publication(number, "run", f"entry-{number}", number > 0, content))
        best = min(best, (time.perf_counter() - began_s, time.process_time() - cpu_s))
    took_s, cpu_s = best
    rate = f"{size_bytes / took_s / 1e6:,.0f} MB/s"
    return f"| {case.name} | {took_s * 1e3:.1f} ms | {rate} | {cpu_s * 1e3:.0f} ms |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    settings = {"num.partitions": str(PARTITIONS), "transaction.state.log.num.partitions": "4"}
    with tempfile.TemporaryDirectory() as directory, Cluster(settings, fork=False) as node:
        servers = {"bootstrap.servers": node.bootstrap_servers}
        with Client(ClientConfig.from_properties(servers)) as client:
            print("| a batch of | published in | that is | CPU |\n| --- | ---: | ---: | ---: |")
            for case in CASES:
                print(measure(case, client, rounds, Path(directory)), flush=True)


if __name__ == "__main__":
    main()
