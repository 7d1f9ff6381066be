"""`penstock consume` without a group, by this package's own client."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from broker_wire import Wire
from damaged_batches import damages
from penstock.cli.main import build_app
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, encode_batch
from penstock.testing import Cluster

ROWS = [Record(0, 1_700_000_000_000, b"k", b"v%d" % number, (("h", b"x"),)) for number in range(3)]


@pytest.fixture
def node() -> Iterator[Cluster]:
    """A node with the topic t that creates no topics by itself, and trusts the headers of batches."""
    settings = {"auto.create.topics.enable": "false", "penstock.produce.validation": "header"}
    with Cluster(settings) as cluster:
        with Wire(cluster.bootstrap_servers) as wire:
            wire.create_topic("t", retention_ms="-1")
        yield cluster


def consumed(node: Cluster, line: str) -> tuple[int, str, str]:
    """The exit code, the output and the errors of a command that ends by itself."""
    words = [*line.split(), "-b", node.bootstrap_servers]
    done = CliRunner().invoke(build_app(words[0]), words)
    return done.exit_code, done.stdout, done.stderr


def lines_of(reading: subprocess.Popen[str]) -> IO[str]:
    assert reading.stdout is not None
    return reading.stdout


@contextmanager
def started(node: Cluster, line: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, which is killed at the end of the block if it still runs."""
    words = [sys.executable, "-m", "penstock", *line.split(), "-b", node.bootstrap_servers]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reading:
        try:
            yield reading
        finally:
            reading.kill()


def produce(node: Cluster, *batches: bytes) -> None:
    with Wire(node.bootstrap_servers) as wire:
        for data in batches:
            answer = wire.produce("t", data)
            assert answer.error_code == ErrorCode.NONE, answer


def test_no_group_and_no_internal_topic_is_created(node: Cluster) -> None:
    produce(node, *(encode_batch(ROWS, compression=codec) for codec in Codec))
    code, printed, stderr = consumed(node, r"consume t --from-beginning -e -f %p/%o=%k=%v=%h=%T\n")
    expected = [f"0/{n}=k=v{n % 3}=h=x=1700000000000" for n in range(3 * len(Codec))]
    assert (code, printed.splitlines(), stderr) == (0, expected, "")
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    assert set(admin.list_topics(timeout=20).topics) == {"t"}
    assert admin.list_consumer_groups().result(20).valid == []


def test_a_damaged_batch_is_named_or_left_out(node: Cluster) -> None:
    rows = [Record(0, 1_700_000_000_000, None, b"value-%d" % number) for number in range(5)]
    sound = [f"value-{number}" for number in range(5)]
    produce(node, encode_batch(rows), damages(rows, Codec.NONE)["records cut short"], encode_batch(rows))
    named = "topic 't', partition 0, offset 5: the batch is damaged: "
    code, printed, stderr = consumed(node, "consume t --from-beginning -e")
    assert (code, printed.split()) == (1, sound)
    assert named in stderr
    assert stderr.endswith("(--skip-undecodable reads on)\n")
    code, printed, stderr = consumed(node, "consume t --from-beginning -e --skip-undecodable")
    assert (code, printed.split()) == (0, sound * 2)
    assert named in stderr


def test_records_of_open_and_aborted_transactions_are_printed_on_demand(node: Cluster) -> None:
    settings = {"bootstrap.servers": node.bootstrap_servers, "transactional.id": "x"}
    producer = Producer(settings)
    producer.init_transactions(30)
    for value, ends in (
        ("aborted", producer.abort_transaction),
        ("committed", producer.commit_transaction),
        ("open", producer.flush),
    ):
        producer.begin_transaction()
        producer.produce("t", value)
        producer.flush(30)
        ends(30)
    assert consumed(node, "consume t --from-beginning -e")[1].split() == ["committed"]
    everything = consumed(node, "consume t --from-beginning -e --read-uncommitted")[1].split()
    assert everything == ["aborted", "committed", "open"]


def test_a_reader_survives_a_restart_and_ends_with_its_topic(node: Cluster) -> None:
    produce(node, encode_batch(ROWS))
    with started(node, "consume t --from-beginning") as reading:
        assert [lines_of(reading).readline() for _ in ROWS] == ["v0\n", "v1\n", "v2\n"]
        node.restart()
        produce(node, encode_batch(ROWS))
        assert [lines_of(reading).readline() for _ in ROWS] == ["v0\n", "v1\n", "v2\n"]
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
        admin.delete_topics(["t"])["t"].result(20)
        _, stderr = reading.communicate(timeout=60)
    assert (reading.returncode, stderr.split()) == (
        1,
        ["error:", "topic", "'t':", "Unknown", "topic", "or", "partition", "(UNKNOWN_TOPIC_OR_PARTITION)"],
    )


@pytest.mark.parametrize(("start_words", "expected"), [("-o 99", []), ("-o 1", ["v1", "v2"])])
def test_an_offset_beyond_the_end_is_the_end(node: Cluster, start_words: str, expected: list[str]) -> None:
    produce(node, encode_batch(ROWS))
    code, printed, stderr = consumed(node, f"consume t {start_words} -e")
    assert (code, printed.split(), stderr) == (0, expected, "")


def test_a_broken_node_does_not_keep_the_time_limit_from_ending_the_reader(node: Cluster) -> None:
    produce(node, encode_batch(ROWS))
    with started(node, "consume t --from-beginning --timeout 3") as reading:
        assert lines_of(reading).readline() == "v0\n"
        os.kill(node.pid, signal.SIGKILL)
        _, stderr = reading.communicate(timeout=60)
    assert (reading.returncode, stderr) == (0, "")
