"""The ACLs and the passwords of guests, as the answers to their administrator say.

Guests are the clients that need permissions. They log in by SCRAM on a listener of their own. All other
clients, and the nodes, are `User:ANONYMOUS`, a super user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.metadata.configs.support import STANDARD_AUTHORIZER
from penstock.security.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from penstock.security.scram import ScramMechanism
from penstock.testing.simulator.history import Violation

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage

GUESTS: Final = ("guest0", "guest1")
LISTENER: Final = "SASL_PLAINTEXT"
GUESTS_PORT: Final = 9094
MECHANISM: Final = ScramMechanism.SCRAM_SHA_256

PROPERTIES: Final[Mapping[str, str]] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": MECHANISM.title,
    "connections.max.reauth.ms": "3000",
}
"""The configuration of nodes that have guests."""

_INCLUDED: Final = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
"""The operations that include DESCRIBE if they are allowed."""


class Access:
    """The ACLs and passwords that exist.

    A request without an answer may be executed at any later time. So each ACL is created once, and deleted at
    most once, and each password is set once.
    """

    def __init__(self) -> None:
        self.acls: set[Acl] = set()
        """The ACLs whose creation was confirmed, and whose deletion was not requested yet."""
        self.uncertain: set[Acl] = set()
        """The ACLs that may or may not exist."""
        self.passwords: dict[str, set[str | None]] = {guest: {None} for guest in GUESTS}
        """The passwords that each guest may have now; None if there may be no such user."""
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
        for guest, passwords in self.passwords.items():
            if not any(has_password(image, guest, password) for password in passwords):
                raise Violation(f"node {node_id} has none of the passwords of {guest}: {passwords}")


def salt_of(password: str) -> bytes:
    """The salt of a password's credential, by which it can be told from others."""
    return password.encode().ljust(16, b".")


def has_password(image: MetadataImage, guest: str, password: str | None) -> bool:
    """Whether the guest has this password according to the image; with None, whether it has none."""
    credential = image.scram.credential(MECHANISM, guest)
    if credential is None or password is None:
        return credential is None and password is None
    return credential.salt == salt_of(password)


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
