"""Reads the subscribed topics from a consumer's metadata; the coordinator interprets nothing else in it."""

from collections.abc import Iterable

from penstock.protocol.codec import MalformedMessage
from penstock.protocol.messages import ConsumerProtocolSubscription

__all__ = ["CONSUMER_PROTOCOL_TYPE", "subscribed_topics"]

CONSUMER_PROTOCOL_TYPE = "consumer"

_VERSION_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The union of the topics in these subscriptions; None if one of them cannot be parsed.

    Every version of the subscription begins with the fields of version 0. Only those are parsed, so future
    versions are understood too.
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
