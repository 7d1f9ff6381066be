"""Random rates of addresses and connections: the same decisions as Apache Kafka's ConnectionQuotas."""

import os
import random
from pathlib import Path

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.broker.quotas.connections import ConnectionLimits, ConnectionQuotas
from penstock.broker.quotas.rate import Window

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

CONNECTIONS = repetitions("PENSTOCK_CONNECTIONS", gate=20_000, long=500_000)
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "::1")
LISTENER = "PLAINTEXT"
PER_ADDRESS = 20


class Script:
    """Random commands, and Penstock's answers in the words of `KafkaConnectionQuotas.java`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        limits = ConnectionLimits(max_connections_per_ip=PER_ADDRESS)
        self.quotas = ConnectionQuotas([LISTENER], LISTENER, Window(11, 1000), lambda: limits)
        self.now_ms = 1_000_000
        self.rates: dict[str | None, float] = {}
        self.open = dict.fromkeys(ADDRESSES, 0)
        self.commands: list[str] = []
        self.answers: list[str] = []

    def step(self) -> None:
        act = self.rng.choices((self.wait, self.change, self.close, self.connect), (30, 1, 20, 60))[0]
        act()

    def wait(self) -> None:
        wait_ms = self.rng.choice((1, 999, 1000, 2500, 11_000)) if self.rng.random() < 0.2 else 40
        self.now_ms += wait_ms
        self.commands.append(f"wait\t{wait_ms}")

    def change(self) -> None:
        address = self.rng.choice((None, *ADDRESSES))
        rate = None if self.rng.random() < 0.3 else self.rng.randrange(1, 20)
        self.rates.pop(address, None)
        if rate is not None:
            self.rates[address] = rate
        self.quotas.limit_addresses(dict(self.rates))
        self.commands.append(f"quota\t{address or ''}\t{'' if rate is None else rate}")

    def close(self) -> None:
        address = self.rng.choice(ADDRESSES)
        if self.open[address]:
            self.open[address] -= 1
            self.quotas.close(LISTENER, address)
            self.commands.append(f"close\t{address}")

    def connect(self) -> None:
        address = self.rng.choice(ADDRESSES)
        self.commands.append(f"open\t{address}")
        assert self.quotas.has_slot(LISTENER)
        assert self.quotas.arrived(LISTENER, self.now_ms) == 0
        wait_ms = self.quotas.address_throttle_ms(LISTENER, address, self.now_ms)
        if wait_ms:
            self.answers.append(f"closed after {wait_ms}")
        elif self.quotas.open(LISTENER, address):
            self.open[address] += 1
            self.answers.append("opened")
        else:
            self.answers.append("refused")


def test_decisions_about_connections_are_kafkas(kafka_libs: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    script = Script(seed)
    for _ in range(CONNECTIONS):
        script.step()
    file = tmp_path / "commands"
    file.write_text("".join(f"{command}\n" for command in script.commands))
    theirs = kafkas_answers(kafka_libs, file)
    for number, (their, ours) in enumerate(zip(theirs, script.answers, strict=True)):
        assert ours == their, f"connection {number}"
    assert {answer.split()[0] for answer in theirs} == {"opened", "closed", "refused"}


def kafkas_answers(libs: Path, file: Path) -> list[str]:
    source = Path(__file__).with_name("KafkaConnectionQuotas.java")
    return run_java(libs, str(source), str(PER_ADDRESS), str(file), timeout_s=500).splitlines()
