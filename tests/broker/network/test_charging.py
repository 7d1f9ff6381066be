"""The throttle times in responses, in whatever form a handler or the controller has made them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.broker.network.charging import Charge, Charging
from penstock.broker.network.connection import Connection
from penstock.broker.network.served import Served, ServedApi
from penstock.broker.network.stats import ApiStats
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.quotas.rate import Window
from penstock.metadata.image.client_quotas import (
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotasImage,
    client_quota_entity,
    client_quota_record,
)
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import ProduceResponse


class Client:
    """A client with a limit, whose requests take 1 s each, and its connection."""

    def __init__(self, key: str) -> None:
        image = ClientQuotasImage()
        image.replay(client_quota_record(client_quota_entity({"user": None}), key, 1.0))
        self.quotas = ClientQuotas(lambda: image, Window(11, 1000), lambda: 1000)
        self.client = self.quotas.client("User:ann", "app")
        self.muted_ms: list[int] = []

    def respond(
        self, key: ApiKey, version: int, response: object, *, is_exempt: bool = False, frame_bytes: int = 0
    ) -> Any:
        served = Served(key, version, ServedApi(None, lambda *_: None, (0, 99), (0, 99)), ApiStats())
        charge = Charge(self.client, frame_bytes)
        charge.handler_ns, charge.is_exempt = 1_000_000_000, is_exempt
        connection = cast("Connection", SimpleNamespace(mute=self.muted_ms.append))
        return Charging(self.quotas).respond(charge, served, connection, response)


@pytest.mark.parametrize(
    "key", [ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS], ids=lambda key: key.name
)
def test_the_controllers_throttle_time_is_found_in_its_encoded_response(key: ApiKey) -> None:
    lowest, highest = api_keys.api_range(key)
    for version in range(lowest, highest + 1):
        sent = api_keys.response_class(key)()
        sent.throttle_time_ms = 700
        encoded = sent.encode(version)
        decoded, _ = api_keys.response_class(key).decode(version, encoded)
        client = Client(CONTROLLER_MUTATION_RATE)
        answer = client.respond(key, version, encoded)
        assert client.muted_ms == [700] * (decoded.throttle_time_ms == 700), version
        assert (answer if isinstance(answer, bytes) else answer.encode(version)) == encoded


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.HEARTBEAT])
def test_requests_are_charged_their_time(key: ApiKey) -> None:
    client = Client(REQUEST_PERCENTAGE)
    version = api_keys.api_range(key)[1]
    encoded = client.respond(key, version, api_keys.response_class(key)().encode(version))
    plain = client.respond(key, version, api_keys.response_class(key)())
    assert (encoded.throttle_time_ms, plain.throttle_time_ms) == (1000, 1000)
    assert client.muted_ms == [1000, 1000]


def test_a_version_without_a_throttle_time_is_muted_as_well() -> None:
    client = Client(REQUEST_PERCENTAGE)
    answer = client.respond(ApiKey.METADATA, 2, api_keys.response_class(ApiKey.METADATA)())
    answer.encode(2)
    assert client.muted_ms == [1000]


def test_exempt_requests_are_counted_and_not_charged() -> None:
    client = Client(REQUEST_PERCENTAGE)
    response = api_keys.response_class(ApiKey.WRITE_TXN_MARKERS)()
    assert client.respond(ApiKey.WRITE_TXN_MARKERS, 1, response, is_exempt=True) is response
    assert (client.muted_ms, client.quotas.exempt_ns) == ([], 1_000_000_000)


def test_a_produce_without_an_answer_is_charged_its_bytes_only() -> None:
    timed = Client(REQUEST_PERCENTAGE)
    assert timed.respond(ApiKey.PRODUCE, 9, None, frame_bytes=1000) is None
    assert (timed.muted_ms, timed.quotas.exempt_ns) == ([], 1_000_000_000)
    sized = Client(PRODUCER_BYTE_RATE)
    assert sized.respond(ApiKey.PRODUCE, 9, None, frame_bytes=30) is None
    assert sized.muted_ms == [20_000]


def test_an_encoded_produce_response_gets_its_throttle_time() -> None:
    client = Client(PRODUCER_BYTE_RATE)
    for version in range(5, 14):
        answer = client.respond(ApiKey.PRODUCE, version, ProduceResponse().encode(version), frame_bytes=100)
        assert answer.throttle_time_ms > 0
