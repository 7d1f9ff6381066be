"""Random quotas, requests and pauses: the same throttle times as Apache Kafka's own quota managers."""

import os
import random
from pathlib import Path

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.broker.quotas.client_quotas import ClientQuotas, MeteredClient
from penstock.broker.quotas.rate import Window
from penstock.metadata.image.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotasImage,
    client_quota_entity,
    client_quota_record,
)

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

REQUESTS = repetitions("PENSTOCK_CHARGES", gate=20_000, long=1_000_000)
USERS = ("ann", "bert", "CN=a b%2F,O=ü", "ANONYMOUS")
CLIENT_IDS = ("app", "app 2", "")
KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
ABSENT, DEFAULT = "-", "*"


class Script:
    """Random commands, and what Penstock answers to each in the words of `KafkaQuotas.java`."""

    def __init__(self, seed: int, window: Window) -> None:
        self.rng = random.Random(seed)
        self.image = ClientQuotasImage()
        self.now_ms = 1_000_000
        self.quotas = ClientQuotas(lambda: self.image, window, lambda: self.now_ms)
        self.connections: dict[tuple[str, str], MeteredClient] = {}
        self.commands: list[str] = []
        self.answers: list[int] = []

    def step(self) -> None:
        act = self.rng.choices((self.wait, self.change, self.ask), (30, 1, 69))[0]
        act()

    def wait(self) -> None:
        wait_ms = self.rng.choice((1, 7, 100, 999, 1000, 1001, 2500, 10_999, 11_000, 30_000))
        wait_ms = wait_ms if self.rng.random() < 0.3 else self.rng.randrange(50)
        self.now_ms += wait_ms
        self.commands.append(f"wait\t{wait_ms}")

    def change(self) -> None:
        key = self.rng.choice(KEYS)
        user = self.rng.choice((ABSENT, DEFAULT, *USERS))
        client_id = self.rng.choice((ABSENT, DEFAULT, *filter(None, CLIENT_IDS)))
        names: dict[str, str | None] = {
            kind: None if name == DEFAULT else name
            for kind, name in ((USER, user), (CLIENT_ID, client_id))
            if name != ABSENT
        }
        if not names:
            return
        highest = 50.0 if key == REQUEST_PERCENTAGE else 100_000.0
        value = None if self.rng.random() < 0.5 else round(self.rng.uniform(highest / 50, highest), 3)
        self.image.replay(client_quota_record(client_quota_entity(names), key, value))
        self.quotas.committed(0)
        self.commands.append(f"quota\t{key}\t{user}\t{client_id}\t{'' if value is None else value}")

    def ask(self) -> None:
        api = self.rng.choice(("produce", "unanswered", "fetch", "most", "network", "other"))
        user, client_id = self.rng.choice(USERS), self.rng.choice(CLIENT_IDS)
        size_bytes, took_ns = self.rng.randrange(200_000), self.rng.randrange(20_000_000)
        self.commands.append(f"{api}\t{user}\t{client_id}\t{size_bytes}\t{took_ns}")
        self.answers.append(self.answer(api, self.client(user, client_id), size_bytes, took_ns))

    def client(self, user: str, client_id: str) -> MeteredClient:
        """The client on a connection that it uses for a while."""
        if self.rng.random() < 0.1 or (user, client_id) not in self.connections:
            self.connections[user, client_id] = self.quotas.client(f"User:{user}", client_id)
        return self.connections[user, client_id]

    def answer(self, api: str, client: MeteredClient, size_bytes: int, took_ns: int) -> int:
        quotas = self.quotas
        if api == "produce":
            return quotas.produced(client, size_bytes, took_ns, is_answered=True)
        if api == "unanswered":
            return quotas.produced(client, size_bytes, took_ns, is_answered=False)
        if api == "fetch":
            return quotas.fetched(client, size_bytes, took_ns)
        if api == "most":
            return quotas.fetch_bytes_max(client)
        if api == "network":
            quotas.transferred(client, took_ns)
            return 0
        return quotas.requested(client, took_ns, 0)


@pytest.mark.parametrize("window", [Window(11, 1000), Window(2, 3000), Window(1, 1000)], ids=str)
def test_throttle_times_are_kafkas(kafka_libs: Path, tmp_path: Path, window: Window) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    script = Script(seed, window)
    for _ in range(REQUESTS // 3):
        script.step()
    file = tmp_path / "commands"
    file.write_text("".join(f"{command}\n" for command in script.commands))
    theirs = kafkas_answers(kafka_libs, window, file)
    asked = [command for command in script.commands if not command.startswith(("wait", "quota"))]
    for number, (command, their, ours) in enumerate(zip(asked, theirs, script.answers, strict=True)):
        assert ours == their, f"request {number}: {command}"
    assert sum(throttle_ms > 0 for throttle_ms in theirs) > len(theirs) // 20


def kafkas_answers(libs: Path, window: Window, file: Path) -> list[int]:
    source = Path(__file__).with_name("KafkaQuotas.java")
    words = (str(window.samples), str(window.sample_ms // 1000), str(file))
    return [int(line) for line in run_java(libs, str(source), *words, timeout_s=500).splitlines()]
