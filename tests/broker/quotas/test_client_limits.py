"""The order of precedence of client quotas."""

import pytest

from penstock.broker.quotas.limits import ClientLimit, ClientLimits, connection_rates
from penstock.metadata.image.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    ClientQuotasImage,
    client_quota_entity,
    client_quota_record,
)

PRECEDENCE: list[dict[str, str | None]] = [
    {"user": "ann", "client-id": "app"},
    {"user": "ann", "client-id": None},
    {"user": "ann"},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "app"},
    {"client-id": None},
]
"""The entities that match the client "app" of the user "ann", from the most specific one."""


def image_of(*entities: dict[str, str | None], key: str = PRODUCER_BYTE_RATE) -> ClientQuotasImage:
    """The image in which the value of each entity is its place in PRECEDENCE."""
    image = ClientQuotasImage()
    for names in entities:
        value = float(PRECEDENCE.index(names)) if names in PRECEDENCE else 100.0
        image.replay(client_quota_record(client_quota_entity(names), key, value))
    return image


def find(image: ClientQuotasImage, user: str = "ann", client_id: str = "app") -> ClientLimit:
    return ClientLimits(image, PRODUCER_BYTE_RATE).find(user, client_id)


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_entity_limits_a_client(first: int) -> None:
    assert find(image_of(*reversed(PRECEDENCE[first:]))).limit == first


def test_the_tags_name_who_shares_a_limit() -> None:
    tags = {
        index: find(image_of(PRECEDENCE[index], {"user": "bob"}, {"client-id": "other"}))[:2]
        for index in range(len(PRECEDENCE))
    }
    assert [index for index, shared in tags.items() if shared == ("ann", "app")] == [0, 1, 3, 4]
    assert [index for index, shared in tags.items() if shared == ("ann", "")] == [2, 5]
    assert [index for index, shared in tags.items() if shared == ("", "app")] == [6, 7]


def test_a_client_that_no_entity_matches_has_no_limit() -> None:
    assert find(image_of({"user": "bob"})) == ("ann", "", None)
    assert find(image_of({"client-id": "other"})) == ("", "app", None)
    assert find(image_of({"user": "bob", "client-id": None})) == ("ann", "app", None)
    assert find(image_of({"user": "bob"}, {"client-id": "other"})) == ("", "app", None)


def test_no_default_matches_an_empty_client_id() -> None:
    assert find(image_of({"client-id": None}), client_id="").limit is None
    assert find(image_of({"user": "ann", "client-id": None}, {"user": None}), client_id="") == ("ann", "", 5)


def test_each_key_has_its_own_limits() -> None:
    image = image_of({"user": None})
    image.replay(client_quota_record(client_quota_entity({"user": "ann"}), CONSUMER_BYTE_RATE, 7.0))
    assert ClientLimits(image, CONSUMER_BYTE_RATE).find("ann", "app") == ("ann", "", 7)
    assert ClientLimits(image, PRODUCER_BYTE_RATE).find("ann", "app") == ("ann", "", 5)
    assert ClientLimits(image, "request_percentage").is_empty


def test_entities_of_unknown_types_limit_no_client() -> None:
    assert ClientLimits(image_of({"planet": "mars"}, {"ip": None}), PRODUCER_BYTE_RATE).is_empty


def test_limits_know_the_state_of_the_image() -> None:
    image = image_of({"user": None})
    limits = ClientLimits(image, PRODUCER_BYTE_RATE)
    assert limits.version == image.version
    image.replay(client_quota_record(client_quota_entity({"user": "ann"}), PRODUCER_BYTE_RATE, 7.0))
    assert limits.version != image.version
    assert limits.find("ann", "app").limit == 5


def test_rates_of_connections_are_those_of_ip_entities() -> None:
    image = image_of({"ip": "10.0.0.1"}, {"ip": None}, {"user": "ann"}, key=CONNECTION_CREATION_RATE)
    assert connection_rates(image) == {"10.0.0.1": 100.0, None: 100.0}
