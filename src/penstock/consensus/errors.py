"""Errors that cannot occur in a quorum whose members follow the protocol."""

from __future__ import annotations


class InconsistentQuorum(Exception):
    """A message of another member is impossible, such as two leaders in one epoch; it is ignored."""


class CommittedRecordsLost(Exception):
    """The leader's log lacks records known to be committed; to continue would spread the loss."""
