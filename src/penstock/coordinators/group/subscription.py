"""The one thing the coordinator reads inside a consumer's metadata: which topics it subscribes to."""

from collections.abc import Iterable

from penstock.protocol.codec import MalformedMessage
from penstock.protocol.messages import ConsumerProtocolSubscription

__all__ = ["CONSUMER_PROTOCOL_TYPE", "subscribed_topics"]

CONSUMER_PROTOCOL_TYPE = "consumer"

_VERSION_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The union of the topics in these subscriptions; None if one of them cannot be read.

    Every version of the subscription begins with the fields of version 0, so that is what is parsed:
    versions yet to come are understood too.
    """
    topics: set[str] = set()
    for subscription in subscriptions:
        if len(subscription) < _VERSION_BYTES:
            return None
        try:
            parsed, _ = ConsumerProtocolSubscription.decode(0, subscription, _VERSION_BYTES)
        except MalformedMessage:
            return None
        topics.update(parsed.topics)
    return frozenset(topics)
