"""The controller's decisions on client quotas."""

import math

import pytest
from controller_bench import ControllerBench

from penstock.metadata.controller.client_quotas import alter_client_quotas, host_names
from penstock.metadata.controller.state import MAX_RECORDS_PER_REQUEST, Refusal
from penstock.metadata.image.client_quotas import client_quota_entity
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AlterClientQuotasRequest
from quota_wire import Names, entry

Entry = AlterClientQuotasRequest.EntryData
ANN: Names = {"user": "ann"}
IP: Names = {"ip": "10.0.0.1"}


@pytest.fixture
def bench() -> ControllerBench:
    return ControllerBench()


def alter(
    bench: ControllerBench, *entries: Entry, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    results = bench.do(alter_client_quotas, request).entries
    return [(result.error_code, result.error_message) for result in results]


def refusal(
    bench: ControllerBench, names: Names, key: str = "producer_byte_rate", value: float = 1
) -> str | None:
    [(code, message)] = alter(bench, entry(names, (key, value)))
    assert (code == ErrorCode.INVALID_REQUEST) == (message is not None)
    assert code in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    assert bool(bench.records) == (message is None)
    return message


def values(bench: ControllerBench, names: Names) -> dict[str, float]:
    return dict(bench.image.client_quotas.by_entity.get(client_quota_entity(names), {}))


def test_quotas_are_set_changed_and_removed(bench: ControllerBench) -> None:
    both: Names = {"user": None, "client-id": "app"}
    assert (
        alter(
            bench,
            entry(ANN, ("producer_byte_rate", 1024), ("request_percentage", 12.5)),
            entry(both, ("consumer_byte_rate", 10)),
            entry(IP, ("connection_creation_rate", 5)),
        )
        == [(0, None)] * 3
    )
    assert values(bench, ANN) == {"producer_byte_rate": 1024, "request_percentage": 12.5}
    assert values(bench, both) == {"consumer_byte_rate": 10}
    assert values(bench, IP) == {"connection_creation_rate": 5}
    assert alter(bench, entry(ANN, ("producer_byte_rate", 2048), ("request_percentage", None))) == [(0, None)]
    assert values(bench, ANN) == {"producer_byte_rate": 2048}


def test_only_changes_are_written(bench: ControllerBench) -> None:
    alter(bench, entry(ANN, ("producer_byte_rate", 1)))
    bench.records.clear()
    assert alter(bench, entry(ANN, ("producer_byte_rate", 1), ("unknown", None))) == [(0, None)]
    assert not bench.records


def test_validate_only_writes_nothing(bench: ControllerBench) -> None:
    assert alter(bench, entry(ANN, ("producer_byte_rate", 1)), validate_only=True) == [(0, None)]
    [(code, _)] = alter(bench, entry(ANN, ("producer_byte_rate", 0)), validate_only=True)
    assert code == ErrorCode.INVALID_REQUEST
    assert not bench.records


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"planet": "mars"}, "Unhandled client quota entity type: planet"),
        ({"user": ""}, "Empty user not supported"),
        (
            {"ip": "10.0.0.1", "user": "ann"},
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
    ],
)
def test_entities_are_checked(bench: ControllerBench, names: Names, message: str) -> None:
    assert refusal(bench, names) == message


@pytest.mark.parametrize(
    ("names", "key", "value", "message"),
    [
        (ANN, "connection_creation_rate", 1, "Invalid configuration key connection_creation_rate"),
        (IP, "producer_byte_rate", 1, "Invalid configuration key producer_byte_rate"),
        (ANN, "producer_byte_rate", 0, "Quota producer_byte_rate must be greater than 0"),
        (ANN, "request_percentage", -1, "Quota request_percentage must be greater than 0"),
        (ANN, "request_percentage", math.nan, "Quota request_percentage must be greater than 0"),
        (ANN, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        (
            ANN,
            "consumer_byte_rate",
            2.0**64,
            "Proposed value for consumer_byte_rate is too large for a LONG.",
        ),
        (
            IP,
            "connection_creation_rate",
            2.0**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        (ANN, "controller_mutation_rate", 0.5, None),
        (ANN, "producer_byte_rate", 2.0**63, None),
    ],
)
def test_values_are_checked(
    bench: ControllerBench, names: Names, key: str, value: float, message: str | None
) -> None:
    assert refusal(bench, names, key, value) == message


def test_one_wrong_value_refuses_the_entity_but_no_other(bench: ControllerBench) -> None:
    bad = entry(ANN, ("producer_byte_rate", 1), ("consumer_byte_rate", 0))
    good = entry({"user": "bob"}, ("producer_byte_rate", 1))
    assert [code for code, _ in alter(bench, bad, good)] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert not values(bench, ANN)
    assert values(bench, {"user": "bob"}) == {"producer_byte_rate": 1}


def test_a_repeated_entity_or_key_is_refused(bench: ControllerBench) -> None:
    ignored = (
        ErrorCode.INVALID_REQUEST,
        "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=ann})",
    )
    both: Names = {"user": "ann", "client-id": None}
    twice = entry(both, ("producer_byte_rate", 1), ("producer_byte_rate", 2))
    assert alter(bench, twice) == [ignored]
    assert not bench.records
    assert alter(bench, entry(both, ("producer_byte_rate", 1)), entry(both, ("producer_byte_rate", 2))) == [
        ignored
    ]
    assert values(bench, both) == {"producer_byte_rate": 1}


def test_an_entity_may_name_a_host_that_can_be_resolved(bench: ControllerBench) -> None:
    host: Names = {"ip": "host.example"}
    request = AlterClientQuotasRequest(entries=[entry(host, ("connection_creation_rate", 1))])
    assert host_names(request) == {"host.example"}
    [result] = alter_client_quotas(bench.state, request, {"host.example"}).response.entries
    assert result.error_message == "host.example is not a valid IP or resolvable host."
    [result] = alter_client_quotas(bench.state, request, set()).response.entries
    assert result.error_code == ErrorCode.NONE


def test_addresses_are_no_hosts() -> None:
    names: list[str | None] = ["10.0.0.1", "::1", "[::1]", "fe80::1%eth0", None, ""]
    entries = [entry({"ip": name}) for name in names] + [entry({"user": "host.example"})]
    assert host_names(AlterClientQuotasRequest(entries=entries)) == set()


def test_a_request_has_a_limit_of_records(bench: ControllerBench) -> None:
    entries = [
        entry({"user": f"user-{number}"}, ("producer_byte_rate", 1))
        for number in range(MAX_RECORDS_PER_REQUEST + 1)
    ]
    with pytest.raises(Refusal, match="excessively large batch"):
        alter_client_quotas(bench.state, AlterClientQuotasRequest(entries=entries))
