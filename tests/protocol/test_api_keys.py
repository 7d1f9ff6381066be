"""Keys, version ranges and header versions, compared with those of the target release."""

from __future__ import annotations

import pytest
from kafka_facts import facts

from penstock.protocol import messages as m
from penstock.protocol.api_keys import (
    ApiKey,
    advertised_range,
    api,
    api_range,
    apis,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
    unstable_version,
)


def test_keys_are_those_of_the_target_release() -> None:
    assert {key.name: int(key) for key in ApiKey} == {name: int(key) for key, name, *_ in facts("api")}
    assert [api.key for api in apis()] == [int(key) for key in ApiKey]


@pytest.mark.parametrize(("key", "low", "high"), [(int(f[0]), int(f[2]), int(f[3])) for f in facts("api")])
def test_stable_versions(key: int, low: int, high: int) -> None:
    assert api_range(key) == (low, high)
    advertised_low = 0 if key == ApiKey.PRODUCE else low
    assert advertised_range(key) == (advertised_low, high)


@pytest.mark.parametrize(("key", "requests", "responses"), [(int(f[0]), f[4], f[5]) for f in facts("api")])
def test_header_versions(key: int, requests: str, responses: str) -> None:
    low, high = api_range(key)
    assert f"{request_header_version(key, low)}-{request_header_version(key, high)}" == requests
    assert f"{response_header_version(key, low)}-{response_header_version(key, high)}" == responses


def test_unstable_versions_have_a_layout_but_are_not_in_the_range() -> None:
    assert m.InitProducerIdRequest.MAX_VERSION == 6
    assert api_range(ApiKey.INIT_PRODUCER_ID) == (0, 5)
    unstable = {key: unstable_version(key) for key in ApiKey if unstable_version(key) is not None}
    assert unstable == {ApiKey.INIT_PRODUCER_ID: 6}


def test_classes() -> None:
    assert request_class(ApiKey.FETCH) is m.FetchRequest
    assert response_class(ApiKey.FETCH) is m.FetchResponse
    for key in ApiKey:
        assert request_class(key).ID == response_class(key).ID == key
        assert api(key).listeners


def test_names() -> None:
    assert ApiKey.LIST_OFFSETS.api_name == "ListOffsets"
    with pytest.raises(KeyError):
        api_range(4)
