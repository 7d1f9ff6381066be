"""A node against the model: random clients, faults and restarts; every response and every offset must fit.

PENSTOCK_SEED repeats a run, PENSTOCK_SOAK_SECONDS sets how long it lasts (`make soak`). A failure is
shrunk and printed as the calls of the machine that lead to it.
"""

import itertools
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from machine_base import Node
from node_client import NodeClient
from node_machine import NodeMachine

from kafka_node import KafkaNode
from long_run import repetitions
from penstock.testing import Cluster

SOAK_SECONDS = repetitions("PENSTOCK_SOAK_SECONDS", gate=8, long=60)
ROUNDS_A_NODE = 20
# Segments are cleaned as soon as they are rolled, and transactions are aborted as soon as they time out.
CONFIG = {
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "15",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "10",
}


def machine_for(node: Node, *, faults_max: int) -> type[NodeMachine]:
    client = NodeClient(node.bootstrap_servers)
    client.find_coordinators()
    members = {"node": node, "client": client, "faults_max": faults_max}
    return type("Machine", (NodeMachine,), members)


def run(machine: type[NodeMachine], run_seed: int, *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        seed(run_seed)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.longer
@pytest.mark.timeout(SOAK_SECONDS + 400)
def test_the_node_does_what_the_model_says(tmp_path: Path) -> None:
    first = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    end = time.monotonic() + SOAK_SECONDS
    steps = restarts = 0
    for life in itertools.count():
        done = live(tmp_path / str(life), first + life, end)
        steps, restarts = steps + done.steps, restarts + done.restarts
        if time.monotonic() > end:
            break
    print(f"{steps} steps, {restarts} restarts in {SOAK_SECONDS} s")


def live(data_dir: Path, first: int, end: float) -> type[NodeMachine]:
    """Run some rounds with one node; with an odd seed it acknowledges after an fsync."""
    config = {**CONFIG, "penstock.acks.fsync": "true" if first % 2 else "false"}
    with Cluster(config, data_dir=data_dir) as node:
        machine = machine_for(node, faults_max=2)
        for number in range(ROUNDS_A_NODE):
            run_seed = first + number * 2
            print(f"PENSTOCK_SEED={run_seed}", flush=True)
            run(machine, run_seed, examples=25, steps=60)
            if time.monotonic() > end:
                break
    return machine


@pytest.mark.long
@pytest.mark.kafka
def test_the_model_is_apache_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    """Run the same machine against the target release, which shows whether the model is right."""
    run_seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={run_seed}")
    with KafkaNode(kafka_libs, tmp_path, config=CONFIG) as node:
        run(machine_for(node, faults_max=0), run_seed, examples=8, steps=40)
