"""The ACLs, passwords, quotas and tokens of guests, as the answers to their administrator and to them say.

Guests are the clients that need permissions. They log in by SCRAM on a listener of their own. All other
clients, and the nodes, are `User:ANONYMOUS`, a super user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock.metadata.configs.support import STANDARD_AUTHORIZER
from penstock.metadata.image.client_quotas import CONSUMER_BYTE_RATE, USER, client_quota_entity
from penstock.security.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from penstock.security.scram import ScramMechanism
from penstock.testing.simulator.history import Violation

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage

V = TypeVar("V")

GUESTS: Final = ("guest0", "guest1")
LISTENER: Final = "SASL_PLAINTEXT"
GUESTS_PORT: Final = 9094
MECHANISM: Final = ScramMechanism.SCRAM_SHA_256

PROPERTIES: Final[Mapping[str, str]] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": MECHANISM.title,
    "connections.max.reauth.ms": "3000",
    "delegation.token.secret.key": "of all simulated nodes",
}
"""The configuration of nodes that have guests."""

_INCLUDED: Final = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
"""The operations that include DESCRIBE if they are allowed."""


class Changing(Generic[V]):
    """A value that requests replace by ever new ones. Without an answer, a request may be executed late."""

    def __init__(self) -> None:
        self.possible: set[V | None] = {None}
        """The values that it may have now; None if it may be missing."""
        self._abandoned: set[V | None] = set()

    def requested(self, value: V | None) -> None:
        """Note that a request will be sent."""
        self.possible.add(value)

    def abandoned(self, value: V | None) -> None:
        """Note that a request got no answer."""
        self._abandoned.add(value)

    def confirmed(self, value: V | None) -> None:
        """Note the answer to a request."""
        self.possible = {value, *self._abandoned}


class Access:
    """The ACLs, passwords, quotas and tokens that exist.

    A request without an answer may be executed at any later time. So each ACL is created once, and deleted at
    most once.
    """

    def __init__(self) -> None:
        self.acls: set[Acl] = set()
        """The ACLs whose creation was confirmed, and whose deletion was not requested yet."""
        self.uncertain: set[Acl] = set()
        """The ACLs that may or may not exist."""
        self.passwords: dict[str, Changing[str]] = {guest: Changing() for guest in GUESTS}
        self.quotas: dict[str, Changing[float]] = {guest: Changing() for guest in GUESTS}
        self.tokens: dict[str, dict[str, str]] = {guest: {} for guest in GUESTS}
        """The tokens whose removal was not requested, by their owners: the password of each id."""
        self.removed_tokens: set[str] = set()
        self.changes = 0

    def check(self, image: MetadataImage, node_id: int) -> None:
        """Check that the metadata of a node has these ACLs and passwords. Raises Violation."""
        found = image.acls.existing
        missing, surplus = self.acls - found, found - self.acls - self.uncertain
        if missing or surplus:
            raise Violation(
                f"node {node_id} lacks ACLs {list(map(str, missing))} and has others that were deleted or "
                f"never created {list(map(str, surplus))}"
            )
        for guest in GUESTS:
            passwords, quotas = self.passwords[guest].possible, self.quotas[guest].possible
            if not any(has_password(image, guest, password) for password in passwords):
                raise Violation(f"node {node_id} has none of the passwords of {guest}: {passwords}")
            if (quota := quota_of(image, guest)) not in quotas:
                raise Violation(f"node {node_id} has the quota {quota} of {guest}, expected one of {quotas}")
            if lost := self.tokens[guest].keys() - image.delegation_tokens.keys():
                raise Violation(f"node {node_id} lacks tokens of {guest}: {lost}")
        if kept := self.removed_tokens & image.delegation_tokens.keys():
            raise Violation(f"node {node_id} has tokens that were removed: {kept}")


def salt_of(password: str) -> bytes:
    """The salt of a password's credential, by which it can be told from others."""
    return password.encode().ljust(16, b".")


def has_password(image: MetadataImage, guest: str, password: str | None) -> bool:
    """Whether the guest has this password according to the image; with None, whether it has none."""
    credential = image.scram.credential(MECHANISM, guest)
    if credential is None or password is None:
        return credential is None and password is None
    return credential.salt == salt_of(password)


def quota_of(image: MetadataImage, guest: str) -> float | None:
    """The guest's quota for reading, in bytes per second."""
    return image.client_quotas.by_entity.get(client_quota_entity({USER: guest}), {}).get(CONSUMER_BYTE_RATE)


def is_allowed(image: MetadataImage, guest: str, host: str, operation: Operation, topic: str) -> bool:
    """Whether the image's ACLs allow an operation on a topic, by Kafka's rules."""
    allowed = False
    for acl in image.acls.existing:
        is_prefix = acl.pattern_type is PatternType.PREFIXED and topic.startswith(acl.resource_name)
        if acl.resource_type is not ResourceType.TOPIC or not (
            is_prefix or acl.resource_name in (topic, "*")
        ):
            continue
        if acl.principal not in (f"User:{guest}", "User:*") or acl.host not in (host, "*"):
            continue
        is_named = acl.operation in (operation, Operation.ALL)
        if acl.permission_type is PermissionType.DENY:
            if is_named:
                return False
        elif is_named or (operation is Operation.DESCRIBE and acl.operation in _INCLUDED):
            allowed = True
    return allowed
