"""What is measured of clients, and for how long it is kept."""

from pathlib import Path

import pytest

from in_process import run, running_node
from penstock.broker.metrics.server import BrokerCollector
from penstock.broker.quotas import meters
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.quotas.meters import IDLE_MS_MAX
from penstock.broker.quotas.rate import THROTTLE_MS_MAX, Window
from penstock.metadata.image.client_quotas import (
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotasImage,
    client_quota_entity,
    client_quota_record,
)


class Clock:
    """The quotas of an image, at a time that the test sets."""

    def __init__(self, **values: float) -> None:
        self.now_ms = 1_000
        self.image = ClientQuotasImage()
        for key, value in values.items():
            self.set(key, value)
        self.quotas = ClientQuotas(lambda: self.image, Window(11, 1000), lambda: self.now_ms)

    def set(self, key: str, value: float | None) -> None:
        """Set a value for each pair of a user and a client id."""
        entity = client_quota_entity({"user": None, "client-id": None})
        self.image.replay(client_quota_record(entity, key, value))

    def produce(self, client_id: str, size_bytes: int = 1) -> int:
        return self.quotas.produced(
            self.quotas.client("User:ann", client_id), size_bytes, 0, is_answered=False
        )


def test_changing_client_ids_use_limited_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "METERS_MAX", 100)
    clock = Clock(producer_byte_rate=1)
    for number in range(1000):
        clock.produce(f"id-{number}")
        clock.produce("steady")
    assert len(clock.quotas.produce) == 100
    (steady,) = (meter for meter in clock.quotas.produce if meter.client_id == "steady")
    assert steady.rate.per_second(clock.now_ms) == 100  # 1000 bytes in 10 s


def test_a_connection_does_not_keep_a_meter_that_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "METERS_MAX", 1)
    clock = Clock(producer_byte_rate=1)
    connected = clock.quotas.client("User:ann", "app")
    clock.quotas.produced(connected, 5, 0, is_answered=True)
    clock.produce("another")
    clock.quotas.produced(connected, 7, 0, is_answered=True)
    (meter,) = clock.quotas.produce
    assert (meter.client_id, meter.rate.per_second(clock.now_ms)) == ("app", 0.7)


def test_meters_expire_after_an_hour_without_use() -> None:
    clock = Clock(producer_byte_rate=1)
    clock.produce("early")
    clock.now_ms += IDLE_MS_MAX
    clock.produce("late")
    clock.quotas.expire()
    assert {meter.client_id for meter in clock.quotas.produce} == {"early", "late"}
    clock.now_ms += 1
    clock.quotas.expire()
    assert {meter.client_id for meter in clock.quotas.produce} == {"late"}


def test_nothing_is_measured_without_quotas() -> None:
    clock = Clock()
    assert not clock.quotas.is_active
    clock.set(PRODUCER_BYTE_RATE, 1)
    clock.quotas.committed(0)
    assert clock.quotas.is_active
    assert clock.produce("app", 100) > 0
    clock.set(PRODUCER_BYTE_RATE, None)
    clock.quotas.committed(0)
    assert not clock.quotas.is_active
    assert clock.produce("app", 100) == 0


def test_the_controllers_throttle_time_counts_for_the_client() -> None:
    clock = Clock(**{CONTROLLER_MUTATION_RATE: 1})
    assert clock.quotas.is_active
    client = clock.quotas.client("User:ann", "app")
    assert clock.quotas.requested(client, 10**12, 700) == 700
    clock.set(REQUEST_PERCENTAGE, 1)
    clock.quotas.committed(0)
    assert clock.quotas.requested(client, 10**12, 700) == 1000  # the longer one


def test_a_throttle_time_fits_into_its_field() -> None:
    clock = Clock(producer_byte_rate=0.001)
    assert clock.produce("app", 100_000_000) == THROTTLE_MS_MAX


def test_metrics_of_quotas(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            entity = client_quota_entity({"user": "ann"})
            broker.image.client_quotas.replay(client_quota_record(entity, PRODUCER_BYTE_RATE, 1000))
            broker.quotas.committed(0)
            client = broker.quotas.client("User:ann", "app")
            assert broker.quotas.produced(client, 20_000, 0, is_answered=True) == 10_000
            found = {
                (sample.name, *sample.labels.values()): sample.value
                for family in BrokerCollector(broker).collect()
                for sample in family.samples
            }
            labels = ("produce", "ann", "")
            assert found["penstock_quota_rate", *labels] > 1000
            assert found["penstock_quota_limit", *labels] == 1000
            assert found["penstock_quota_throttles_total", *labels] == 1
            assert found["penstock_quota_throttle_seconds_total", *labels] == 10
            assert found["penstock_connections_muted",] == 0
            assert found["penstock_connection_throttles_total", "PLAINTEXT", "ip"] == 0

    run(story())
