"""A killed exactly-once query is restarted with a topic less in its subscription, and then as before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import copying_driver
import pytest
from confluent_kafka import Consumer, TopicPartition
from copying_driver import start_copy
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from to_the_end import TO_THE_END
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

RECORDS = 1000
START_TIMEOUT_S = 90


@pytest.fixture
def copied(servers: str) -> Callable[[str], list[int]]:
    """The numbers in a topic of one partition, as a `read_committed` client reads them."""

    def read(topic: str) -> list[int]:
        settings = {"bootstrap.servers": servers, "group.id": "unused", "isolation.level": "read_committed"}
        consumer = Consumer(settings | TO_THE_END)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append(int(message.value()))
        consumer.close()
        return sorted(found)

    return read


@contextmanager
def running(log: Path, *arguments: str) -> Iterator[None]:
    """Run the query in processes of its own and kill them at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, copying_driver.__file__, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    try:
        yield
        assert process.poll() is None, log.read_text()[-4000:]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def last_of(directory: Path) -> int:
    return max((int(file.name) for file in directory.glob("[0-9]*")), default=-1)


def test_a_wrong_subscription_leaves_the_checkpoint_as_it_was(
    spark: SparkSession,
    servers: str,
    make_topic: Callable[..., str],
    produce: Callable[..., None],
    copied: Callable[[str], list[int]],
    tmp_path: Path,
) -> None:
    orders, customers, target = make_topic(), make_topic(), make_topic()
    for topic, first in ((orders, 0), (customers, RECORDS)):
        produce(topic, [b"%d" % number for number in range(first, first + RECORDS)])
    checkpoint = tmp_path / "checkpoint"
    offsets, commits = checkpoint / "offsets", checkpoint / "commits"
    both = f"{orders},{customers}"

    def copy(subscribe: str) -> None:
        query = start_copy(spark, servers, subscribe, target, str(checkpoint), to_the_end=True)
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()

    with running(tmp_path / "log", servers, both, target, str(checkpoint)):
        wait_until(lambda: last_of(commits) >= 2, timeout_s=START_TIMEOUT_S)
    before = last_of(offsets)
    for _ in range(2):
        with pytest.raises(PySparkException, match=rf"leaves out {orders} \(partitions 0\), which exist"):
            copy(customers)
    assert last_of(offsets) == before
    copy(both)
    assert copied(target) == list(range(2 * RECORDS))

    # Releases that logged such a batch advised to set failOnDataLoss, which copied all of a topic again.
    header, metadata, entry = (offsets / str(last_of(offsets))).read_text().split("\n")
    number, colon, text = entry.partition(":") if header == "v2" else ("", "", entry)
    kept = {key: part for key, part in json.loads(text).items() if key != orders}
    wrong = offsets / str(last_of(offsets) + 1)
    wrong.write_text("\n".join([header, metadata, f"{number}{colon}{json.dumps(kept)}"]))
    produce(orders, [b"%d" % (2 * RECORDS)])
    with pytest.raises(PySparkException, match="Delete the file with the highest number"):
        copy(both)
    wrong.unlink()
    copy(both)
    assert copied(target) == list(range(2 * RECORDS + 1))
