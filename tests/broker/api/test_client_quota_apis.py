"""AlterClientQuotas and DescribeClientQuotas at a node."""

import pytest

from broker_wire import Wire
from penstock.metadata.image.client_quotas import client_quota_entity
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from quota_wire import Names, alter, described, entry

VERSIONS = pytest.mark.parametrize("version", [0, 1])


@VERSIONS
def test_quotas_are_described_as_they_were_set(wire: Wire, version: int) -> None:
    user: Names = {"user": f"described-{version}"}
    both: Names = {**user, "client-id": None}
    set_both = (
        entry(user, ("producer_byte_rate", 1024), ("request_percentage", 12.5)),
        entry(both, ("controller_mutation_rate", 0.5)),
    )
    assert alter(wire, *set_both, version=version) == [(0, None)] * 2
    of_user = {client_quota_entity(user): {"producer_byte_rate": 1024.0, "request_percentage": 12.5}}
    of_both = {client_quota_entity(both): {"controller_mutation_rate": 0.5}}
    assert described(wire, user, version=version) == of_user
    assert described(wire, both, version=version) == of_both
    assert described(wire, user, strict=False, version=version) == {**of_user, **of_both}


def test_an_invalid_filter_is_refused(wire: Wire) -> None:
    component = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=0, match=None)
    response = wire.ask(DescribeClientQuotasRequest(components=[component]), DescribeClientQuotasResponse)
    assert (response.error_code, response.entries) == (ErrorCode.INVALID_REQUEST, None)
    assert response.error_message == "Request specified MATCH_TYPE_EXACT, but set match string to null."


def test_validate_only_sets_nothing(wire: Wire) -> None:
    user: Names = {"user": "validated"}
    assert alter(wire, entry(user, ("producer_byte_rate", 1)), validate_only=True) == [(0, None)]
    assert described(wire, user) == {}


def test_hosts_are_resolved(wire: Wire) -> None:
    names: list[Names] = [{"ip": name} for name in ("localhost", "127.1", "no-such-host.invalid", "x" * 300)]
    results = alter(
        wire, *(entry(each, ("connection_creation_rate", 1000)) for each in names), validate_only=True
    )
    assert [code for code, _ in results] == [0, 0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert results[2][1] == "no-such-host.invalid is not a valid IP or resolvable host."
