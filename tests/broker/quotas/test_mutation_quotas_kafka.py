"""Random requests of random clients: as Kafka's ControllerMutationQuotaManager limits and throttles them."""

import os
import random
from pathlib import Path

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.broker.quotas import mutations
from penstock.broker.quotas.limits import ClientLimits
from penstock.broker.quotas.mutations import MutationQuotas
from penstock.metadata.controller.state import Refusal
from penstock.metadata.image.client_quotas import (
    CONTROLLER_MUTATION_RATE,
    ClientQuotasImage,
    client_quota_entity,
    client_quota_record,
)

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

COMMANDS = repetitions("PENSTOCK_QUOTA_COMMANDS", gate=20_000, long=1_000_000)
USERS, CLIENT_IDS = ("ann", "ädel+=", "bert"), ("app", "b c", "")
RATES = (0.1, 1.0, 2.5, 10.0, 1000.0)
BURST_S = 11
UNLIMITED = float(2**63 - 1)


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


def test_both_limit_and_throttle_the_same(
    kafka_libs: Path, tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        mutations, "IDLE_MS_MAX", 2**62
    )  # Kafka drops idle buckets by the time of the machine
    image = ClientQuotasImage()
    now_ms = 1_000_000_000
    quotas = MutationQuotas(lambda: image, BURST_S, lambda: now_ms)
    commands: list[str] = []
    expected: list[str] = []
    for _ in range(COMMANDS):
        if rng.random() < 0.05:
            commands.append(change_limit(image, rng))
            continue
        now_ms += rng.choice((1, 1, 5, 40, 700, 3000))
        user, client_id, is_strict = rng.choice(USERS), rng.choice(CLIENT_IDS), rng.random() < 0.5
        counts = rng.choices((1, 1, 2, 5, 30, 400), k=rng.choice((1, 1, 2, 3)))
        words = ["charge", str(now_ms), user, client_id, "strict" if is_strict else "permissive"]
        quota = quotas.of(f"User:{user}", client_id, is_strict=is_strict)
        admitted = "".join("y" if is_admitted(quota.charge, count) else "n" for count in counts)
        now_ms += rng.choice((0, 0, 1, 50))
        commands.append("\t".join([*words, str(now_ms), *map(str, counts)]))
        limit = ClientLimits(image, CONTROLLER_MUTATION_RATE).find(user, client_id)
        bound = UNLIMITED if limit.limit is None else limit.limit
        expected.append(f"{quota.throttle_ms()}\t{admitted}\t{limit.user}\t{limit.client_id}\t{bound}")
    file = tmp_path / "commands"
    file.write_text("\n".join(commands))
    source = Path(__file__).with_name("KafkaMutationQuotas.java")
    answers = run_java(kafka_libs, str(source), str(file), timeout_s=500).splitlines()
    for number, (ours, theirs) in enumerate(zip(expected, answers, strict=True)):
        assert plain(ours) == plain(theirs), number
    assert sum("n" in answer for answer in answers) > COMMANDS / 50
    assert sum(answer.startswith("0\t") for answer in answers) > COMMANDS / 50


def change_limit(image: ClientQuotasImage, rng: random.Random) -> str:
    """Set or remove a quota of a random entity; return the command."""
    user, client_id = rng.choice((*USERS, "*", "-")), rng.choice((*filter(None, CLIENT_IDS), "*", "-"))
    if user == client_id == "-":
        user = "*"
    rate = rng.choice(RATES) if rng.random() < 0.35 else None
    names = {
        kind: None if name == "*" else name
        for kind, name in (("user", user), ("client-id", client_id))
        if name != "-"
    }
    image.replay(client_quota_record(client_quota_entity(names), CONTROLLER_MUTATION_RATE, rate))
    return f"limit\t{user}\t{client_id}\t{'-' if rate is None else rate}"


def is_admitted(charge: object, count: int) -> bool:
    assert callable(charge)
    try:
        charge(count)
    except Refusal:
        return False
    return True


def plain(answer: str) -> list[object]:
    throttle_ms, admitted, user, client_id, bound = answer.split("\t")
    return [int(throttle_ms), admitted, user, client_id, float(bound)]
