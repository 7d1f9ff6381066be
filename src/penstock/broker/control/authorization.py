"""The authorizer of this node: it follows the ACLs of the metadata, and answers what a requester may do.

A node without ``authorizer.class.name`` has none, and everything is allowed. What a node asks its own
controller without a connection is allowed, unless it asks in the name of a client; all others, nodes
included, need permissions.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock.protocol import api_keys
from penstock.security.authorizer import Authorizer
from penstock.security.permissions import UNRESTRICTED, Granted, OwnPermissions, Permissions

if TYPE_CHECKING:
    from penstock.broker.control.metadata_follower import MetadataFollower
    from penstock.broker.quorum.quorum import Quorum
    from penstock.metadata.configs import BrokerConfig
    from penstock.protocol.api_keys import ApiKey

log = logging.getLogger(__name__)


def request_name(key: ApiKey) -> str:
    """The name of a request in Kafka's audit log, such as ``ListOffsets``."""
    return api_keys.request_class(key).__name__.removesuffix("Request")


class Authorization:
    """A `QuorumWatcher` that keeps the authorizer's ACLs those of the image, from the first commit on."""

    def __init__(self, config: BrokerConfig, quorum: Quorum, metadata: MetadataFollower) -> None:
        self.authorizer: Final = (
            Authorizer(config.super_users, allows_without_acl=config.allows_without_acl)
            if config.has_authorizer
            else None
        )
        """The authorizer; None if this node has none."""
        self.own: Final[Permissions] = (
            UNRESTRICTED if self.authorizer is None else OwnPermissions(self.authorizer)
        )
        """The permissions of this node at its own controller."""
        self._quorum = quorum
        self._metadata = metadata
        self._version = 0
        if self.authorizer is not None:
            metadata.watch(self)

    def permissions(self, principal: str, host: str, key: ApiKey) -> Permissions:
        """The permissions of a principal at a host for one API."""
        if self.authorizer is None:
            return UNRESTRICTED
        return Granted(self.authorizer, principal, host, request_name(key))

    # QuorumWatcher

    def committed(self, end_offset: int) -> None:
        """Take over the changes of the ACLs. They are loaded once the leader's high watermark is reached."""
        authorizer, acls = self.authorizer, self._metadata.image.acls
        assert authorizer is not None
        if acls.version != self._version:
            self._version = acls.version
            known = authorizer.ids
            for acl_id in known - acls.by_id.keys():
                authorizer.put(acl_id, None)
            for acl_id in acls.by_id.keys() - known:
                authorizer.put(acl_id, acls.by_id[acl_id])
        if not authorizer.is_ready:
            high_watermark = self._quorum.leader_high_watermark
            if high_watermark is not None and end_offset >= high_watermark:
                authorizer.loaded()
                log.info("the authorizer has the ACLs of the cluster acls=%d", len(authorizer.ids))

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Do nothing: the ACLs stay in force."""

    def failed(self, reason: str) -> None:
        """Do nothing: committed ACLs stay in force."""
