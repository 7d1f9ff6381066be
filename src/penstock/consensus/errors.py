"""What must not happen in a quorum whose members keep the rules."""

from __future__ import annotations


class InconsistentQuorum(Exception):
    """Another member says what cannot be, such as two leaders in one epoch: it isn't listened to."""


class CommittedRecordsLost(Exception):
    """The leader's log lacks records that are known here to be committed: going on would spread the loss."""
