"""The rules of the authorizer, one by one; `test_authorizer_kafka` holds random ones against Kafka's."""

import logging

import pytest

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.security.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from penstock.security.authorizer import Authorizer, java_address
from penstock.security.permissions import UNRESTRICTED, Granted

HOST = "10.0.0.1"
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER


def acl(words: str) -> Acl:
    """An ACL as ``allow User:ann read topic orders``, with ``orders*`` for a prefix."""
    permission, principal, operation, kind, name = words.split()
    prefixed = name.endswith("*") and name != "*"
    return Acl(
        ResourceType[kind.upper()],
        name[:-1] if prefixed else name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal,
        "*",
        Operation[operation.upper()],
        PermissionType[permission.upper()],
    )


def authorizer(*acls: str, allows_without_acl: bool = False, super_users: tuple[str, ...] = ()) -> Authorizer:
    found = Authorizer(super_users, allows_without_acl=allows_without_acl)
    for number, words in enumerate(acls):
        found.put(number.to_bytes(16), acl(words))
    found.loaded()
    return found


def may(found: Authorizer, operation: Operation, name: str, principal: str = "User:ann") -> bool:
    return found.decide(principal, HOST, operation, TOPIC, name).is_allowed


def test_a_denial_wins_whatever_its_pattern() -> None:
    for denial in (
        "deny User:ann write topic orders",
        "deny User:* all topic ord*",
        "deny User:* write topic *",
    ):
        found = authorizer("allow User:ann write topic orders", "allow User:ann all topic *", denial)
        assert not may(found, WRITE, "orders"), denial
        found.put(bytes([0] * 15 + [2]), None)
        assert may(found, WRITE, "orders"), denial


def test_a_denial_stays_when_another_acl_of_its_resource_goes() -> None:
    """As in CVE-2024-27309, whatever the other ACL's principal, operation and pattern."""
    for denial in ("deny User:ann write topic orders", "deny User:ann write topic ord*"):
        name = denial.split()[-1]
        for other in (
            f"allow User:ann write topic {name}",
            f"deny User:ann read topic {name}",
            f"deny User:bert write topic {name}",
            "allow User:ann all topic ord*",
            "deny User:ann read topic or*",
            "allow User:* write topic *",
        ):
            for first, second in ((denial, other), (other, denial)):
                found = authorizer(first, second, "allow User:ann write topic o*")
                found.put(int(first == denial).to_bytes(16), None)
                assert not may(found, WRITE, "orders"), (first, second)


def test_reading_includes_describing_but_its_denial_does_not() -> None:
    assert may(authorizer("allow User:ann read topic orders"), DESCRIBE, "orders")
    found = authorizer("allow User:ann describe topic orders", "deny User:ann read topic orders")
    assert may(found, DESCRIBE, "orders")
    assert not may(found, READ, "orders")


def test_resources_with_acls_are_closed_even_where_those_without_are_open() -> None:
    found = authorizer("allow User:bert read topic ord*", allows_without_acl=True)
    assert may(found, READ, "customers")
    assert not may(found, READ, "orders")


def test_super_users_need_no_acls_and_none_denies_them() -> None:
    found = Authorizer(["User:root"], allows_without_acl=False)
    found.put(bytes(16), acl("deny User:root all topic *"))
    assert may(found, WRITE, "orders", "User:root"), "also before the ACLs are loaded"
    with pytest.raises(KafkaError, match=r"not loaded yet.* User:ann .*'super.users'"):
        Granted(found, "User:ann", HOST, "Produce").allows(WRITE, TOPIC, "orders")


def test_some_resource_is_allowed_unless_all_of_its_pattern_is_denied() -> None:
    for allowed, denied, some in (
        ("allow User:ann write topic orders", "deny User:ann write topic orders", False),
        ("allow User:ann write topic orders*", "deny User:ann write topic orders", True),
        ("allow User:ann write topic orders*", "deny User:ann write topic ord*", False),
        ("allow User:ann write topic *", "deny User:ann write topic ord*", True),
        ("allow User:ann write topic orders", "deny User:ann all topic *", False),
        ("allow User:ann read topic orders", "deny User:bert all topic *", False),
    ):
        granted = Granted(authorizer(allowed, denied), "User:ann", HOST, "InitProducerId")
        assert granted.allows_some(WRITE, TOPIC) is some, (allowed, denied)


def test_a_change_voids_the_decisions_that_a_connection_keeps() -> None:
    found = authorizer("allow User:ann write topic orders")
    granted = Granted(found, "User:ann", HOST, "Produce")
    assert granted.allows(WRITE, TOPIC, "orders")
    found.put(bytes([9] * 16), acl("deny User:ann write topic orders"))
    assert not granted.allows(WRITE, TOPIC, "orders")
    found.put(bytes([9] * 16), None)
    assert granted.allows(WRITE, TOPIC, "orders")


def test_decisions_are_logged_in_kafkas_words(caplog: pytest.LogCaptureFixture) -> None:
    granted = Granted(authorizer("deny User:ann write topic ord*"), "User:ann", "::1", "Produce")
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        assert granted.allowed(WRITE, TOPIC, ["orders", "orders"]) == set()
        assert not granted.allows(READ, TOPIC, "orders", logs_denial=False)
    assert [record.getMessage() for record in caplog.records] == [
        "Principal = User:ann is Denied operation = WRITE from host = 0:0:0:0:0:0:0:1 on resource = "
        "Topic:LITERAL:orders for request = Produce with resourceRefCount = 2 based on rule MatchingAcl("
        "acl=StandardAcl[resourceType=TOPIC, resourceName=ord, patternType=PREFIXED, principal=User:ann, "
        "host=*, operation=WRITE, permissionType=DENY])"
    ]


def test_the_operations_of_a_resource_are_a_bit_field() -> None:
    granted = Granted(authorizer("allow User:ann read topic orders"), "User:ann", HOST, "Metadata")
    assert granted.operations(TOPIC, "orders") == 1 << READ | 1 << DESCRIBE
    assert UNRESTRICTED.operations(TOPIC, "orders") == 0b1101_1111_1000
    with pytest.raises(KafkaError, match="Request Metadata needs ALTER permission") as refused:
        granted.require(Operation.ALTER)
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("address", "printed"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::a0%eth0", "fe80:0:0:0:0:0:0:a0%eth0"),
        ("2001:db8::7", "2001:db8:0:0:0:0:0:7"),
        ("simulated", "simulated"),
    ],
)
def test_addresses_have_javas_form(address: str, printed: str) -> None:
    assert java_address(address) == printed
