"""The APIs that each listener serves."""

from pathlib import Path

import pytest

from kafka_node import run_java
from penstock.broker import api_table
from penstock.broker.api_table import ListenerType
from penstock.broker.control.forwarding import FORWARDABLE
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

LISTENERS_JAVA = Path(__file__).parents[1] / "protocol" / "KafkaListeners.java"


@pytest.mark.kafka
def test_listeners_and_what_is_forwarded_are_kafkas(kafka_libs: Path) -> None:
    lines = run_java(kafka_libs, str(LISTENERS_JAVA)).splitlines()
    kafkas = {
        int(key): (forwarded == "true", set(listeners))
        for key, forwarded, *listeners in map(str.split, lines)
    }
    assert {key: kafkas[key] for key in map(int, ApiKey)} == {
        int(key): (key in FORWARDABLE, set(api_keys.api(key).listeners)) for key in ApiKey
    }


def test_what_only_controllers_answer_is_forwarded_by_brokers() -> None:
    forwarded = {
        key for key in api_table.served_by(ListenerType.BROKER) if api_table.apis()[key].broker is None
    }
    assert ApiKey.CREATE_TOPICS in forwarded
    assert forwarded <= FORWARDABLE
    assert ApiKey.VOTE not in api_table.served_by(ListenerType.BROKER)
    assert ApiKey.PRODUCE not in api_table.served_by(ListenerType.CONTROLLER)


def test_every_module_is_served_somewhere() -> None:
    served = {key for listener in ListenerType for key in api_table.served_by(listener)}
    assert served == set(api_table.apis())


def test_errors_are_told_for_each_thing_asked_for() -> None:
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller")
    topic = CreateTopicsRequest.CreatableTopic(name="t")
    created = api_table.answer_error(CreateTopicsRequest(topics=[topic]), error, 7)
    assert isinstance(created, CreateTopicsResponse)
    (result,) = created.topics
    assert (result.name, result.error_code, result.error_message) == ("t", error.code, "no controller")
    updated = api_table.answer_error(UpdateFeaturesRequest(), error, 1)
    assert isinstance(updated, UpdateFeaturesResponse)
    assert (updated.error_code, updated.error_message) == (error.code, "no controller")


@pytest.mark.parametrize("key", sorted(FORWARDABLE & set(api_table.apis())), ids=lambda key: key.name)
def test_every_forwarded_request_can_be_answered_with_an_error(key: ApiKey) -> None:
    """This holds in every version: the client waits for an answer even if the controller fails."""
    request = api_keys.request_class(key)()
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller")
    for version in range(api_table.apis()[key].versions[0], api_keys.api_range(key)[1] + 1):
        response = api_table.answer_error(request, error, version)
        assert isinstance(response, api_keys.response_class(key))
        response.encode(version)


WITHOUT_PERMISSIONS = {
    ApiKey.API_VERSIONS,  # clients ask it before they authenticate, and it tells nothing of the data
    ApiKey.SASL_HANDSHAKE,  # clients have no principal yet
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.RENEW_DELEGATION_TOKEN,  # a token's owner and its renewers may
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,  # all clients are refused, as by a Kafka without that protocol
}


def test_every_api_names_the_permissions_that_it_checks() -> None:
    """The handlers themselves check them: `tests/broker/api` has the answers."""
    silent = {key for key, api in api_table.apis().items() if not api.permissions}
    assert silent == WITHOUT_PERMISSIONS
