"""What brokers and controllers both say of themselves when they register: endpoints and features."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from penstock.metadata.configs import SECURITY_PROTOCOLS, Listener
from penstock.metadata.controller.features import SUPPORTED_FEATURES

if TYPE_CHECKING:
    from penstock.broker.node import Broker

T = TypeVar("T")


def listeners(make: Callable[..., T], broker: Broker, advertised: Iterable[Listener]) -> list[T]:
    """Where the node is reached: ``advertised`` with the ports and names that they have come to."""
    found = []
    for listener in advertised:
        host, port = broker.advertised(listener.name)
        protocol = SECURITY_PROTOCOLS[listener.security_protocol]
        found.append(make(name=listener.name, host=host, port=port, security_protocol=protocol))
    return found


def features(make: Callable[..., T]) -> list[T]:
    """The levels of each feature that this release knows."""
    return [
        make(
            name=feature.name,
            min_supported_version=feature.min_level,
            max_supported_version=feature.max_level,
        )
        for feature in SUPPORTED_FEATURES
    ]
