"""The endpoints and features that brokers and controllers both send when they register."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from penstock.metadata.configs import SECURITY_PROTOCOLS, Listener
from penstock.metadata.controller.features import SUPPORTED_FEATURES

if TYPE_CHECKING:
    from penstock.broker.setup.host import NodeHost

T = TypeVar("T")


def listeners(make: Callable[..., T], node: NodeHost, advertised: Iterable[Listener]) -> list[T]:
    """Return the ``advertised`` listeners with their actual host names and ports."""
    found = []
    for listener in advertised:
        host, port = node.advertised(listener.name)
        protocol = SECURITY_PROTOCOLS[listener.security_protocol]
        found.append(make(name=listener.name, host=host, port=port, security_protocol=protocol))
    return found


def features(make: Callable[..., T]) -> list[T]:
    """Return the range of supported levels of each feature."""
    return [
        make(
            name=feature.name,
            min_supported_version=feature.min_level,
            max_supported_version=feature.max_level,
        )
        for feature in SUPPORTED_FEATURES
    ]
