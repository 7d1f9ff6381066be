"""Tasks whose node or process is killed: nothing is lost, and with transactions nothing is written twice."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from running_tasks import (
    OFTEN,
    Counting,
    Keeping,
    Listener,
    Reading,
    clients,
    create,
    exactly_once,
    sink_parts,
    source_parts,
    started_offsets,
)

from long_run import repetitions
from penstock.connect.stores import State
from penstock.connect.tasks import sink_runner, source_runner
from penstock.testing import Cluster
from waiting import wait_until

KILLS = repetitions("PENSTOCK_CONNECT_TASK_KILLS", gate=1, long=12)
PROGRAM = Path(__file__).with_name("counting_task.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster({"group.initial.rebalance.delay.ms": "0"}) as started:
        yield started


@pytest.mark.longer
@pytest.mark.parametrize("once", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_pipeline_survives_kills_of_its_node(cluster: Cluster, once: bool) -> None:
    topic = f"piped-{once}"
    create(cluster, topic)
    store, offsets = started_offsets(cluster, topic)
    source, sink = Counting(topic, 100, batch=5), Keeping()
    states = [Listener(), Listener()]
    given = clients(cluster, isolation_level="read_committed")
    # Shorter than the node is away: tasks wait all the same.
    given = replace(given, producer={**given.producer, "default.api.timeout.ms": "100"})
    runners = [
        source_runner(
            source_parts(source, topic),
            given,
            offsets,
            OFTEN,
            states[0],
            exactly_once=exactly_once(topic) if once else None,
        ),
        sink_runner(sink_parts(sink, topic, {"topics": topic}), given, OFTEN, states[1]),
    ]
    for runner in runners:
        runner.start()
    for _ in range(KILLS):
        wait_until(lambda: len(sink.values) > source.end - 60)
        cluster.kill()
        source.end += 100
        cluster.restart()
    wait_until(lambda: len(set(sink.values)) == source.end)
    for runner, listener in zip(runners, states, strict=True):
        runner.stop()
        assert runner.join(60)
        assert listener.states == [State.RUNNING, State.UNASSIGNED]
    reading = Reading(cluster, topic)
    expected = [str(number) for number in range(source.end)]
    values = reading.wait_for(source.end)
    assert values == expected if once else list(dict.fromkeys(values)) == expected[: len(set(values))]
    reading.close()
    store.close()


@pytest.mark.longer
def test_a_killed_process_goes_on_where_its_last_transaction_ended(cluster: Cluster) -> None:
    create(cluster, "killed")
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    reading = Reading(cluster, "killed")
    for kill in range(KILLS + 1):
        command = [sys.executable, str(PROGRAM), cluster.bootstrap_servers, "killed"]
        with subprocess.Popen(command, env=environment) as process:
            reading.wait_for(kill * 200 + rng.randrange(1, 150))
            process.kill()
    values = reading.wait_for(len(reading.values))
    assert values == [str(number) for number in range(len(values))]
    reading.close()
