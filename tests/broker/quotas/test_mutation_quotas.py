"""The token buckets that limit mutations."""

import pytest

from penstock.broker.metrics.mutation_metrics import mutation_metrics
from penstock.broker.quotas.mutations import BUCKETS_MAX, IDLE_MS_MAX, MutationQuotas
from penstock.metadata.controller.state import Refusal
from penstock.metadata.image.client_quotas import (
    CONTROLLER_MUTATION_RATE,
    ClientQuotasImage,
    client_quota_entity,
    client_quota_record,
)
from penstock.protocol.errors import ErrorCode

BURST_S = 11


class Bench:
    """Quotas with a clock, and a rate of 2 partitions per second for each client id."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.image = ClientQuotasImage()
        self.quotas = MutationQuotas(lambda: self.image, BURST_S, lambda: self.now_ms)
        self.limit(2.0)

    def limit(self, rate: float | None) -> None:
        entity = client_quota_entity({"client-id": None})
        self.image.replay(client_quota_record(entity, CONTROLLER_MUTATION_RATE, rate))

    def charge(self, *counts: int, is_strict: bool = True, client_id: str = "app") -> int:
        """Charge a request and return its throttle time."""
        quota = self.quotas.of("User:ann", client_id, is_strict=is_strict)
        for count in counts:
            quota.charge(count)
        return quota.throttle_ms()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_burst_is_admitted_and_refilled_with_time(bench: Bench) -> None:
    assert bench.charge(22) == 0
    assert bench.charge(4) == 0, "no token is owed yet"
    with pytest.raises(Refusal) as refused:
        bench.charge(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    bench.now_ms += 2000
    assert bench.charge(1) == 0


def test_a_refused_request_names_the_time_to_wait(bench: Bench) -> None:
    bench.charge(32)
    quota = bench.quotas.of("User:ann", "app", is_strict=True)
    with pytest.raises(Refusal):
        quota.charge(1)
    assert quota.throttle_ms() == 5000
    bench.now_ms += 1500
    assert quota.throttle_ms() == 3500, "the time that the answer took is over"
    bench.now_ms += 10_000
    assert quota.throttle_ms() == 0


def test_a_permissive_quota_admits_and_asks_for_a_pause(bench: Bench) -> None:
    assert bench.charge(22, is_strict=False) == 0
    assert bench.charge(10, is_strict=False) == 5000
    assert bench.charge(10, is_strict=False) == 10_000


def test_clients_have_buckets_of_their_own(bench: Bench) -> None:
    bench.charge(30)
    assert bench.charge(22, client_id="other") == 0
    assert len(bench.quotas) == 2


def test_a_changed_limit_applies_at_once(bench: Bench) -> None:
    bench.charge(32)
    bench.limit(20.0)
    assert bench.charge(0, is_strict=False) == 500
    bench.limit(None)
    assert bench.charge(1000) == 0


def test_buckets_are_dropped_after_an_hour_or_if_there_are_too_many(bench: Bench) -> None:
    bench.charge(1000)
    bench.now_ms += IDLE_MS_MAX + 1
    bench.limit(0.001)
    bench.charge(1)
    assert len(bench.quotas) == 1
    for number in range(BUCKETS_MAX + 10):
        bench.charge(1, client_id=f"app-{number}")
    assert len(bench.quotas) == BUCKETS_MAX


@pytest.mark.parametrize("rate", [0.0, float("nan"), float("inf")])
def test_rates_that_only_another_controller_accepts_break_nothing(bench: Bench, rate: float) -> None:
    bench.limit(rate)
    for _ in range(3):
        assert bench.charge(1, is_strict=False) >= 0
        bench.now_ms += 1


def test_metrics_show_tokens_mutations_and_throttles(bench: Bench) -> None:
    bench.charge(20, 12)
    with pytest.raises(Refusal):
        bench.charge(1, 1)
    bench.now_ms += 1000
    samples = {
        sample.name: (sample.labels, sample.value)
        for family in mutation_metrics(bench.quotas, bench.now_ms)
        for sample in family.samples
    }
    labels = {"user": "", "client_id": "app"}
    assert samples == {
        "penstock_quota_mutation_tokens": (labels, -8.0),
        "penstock_quota_mutations_total": (labels, 32),
        "penstock_quota_mutation_throttles_total": (labels, 1),
    }
