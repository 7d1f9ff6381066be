"""The other brokers' state, from the metadata image."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage


class ImageBrokers:
    """The brokers of the current metadata image.

    `image` and `own_epoch` are called each time, because both values change.
    """

    __slots__ = ("_image", "_own_epoch")

    def __init__(self, image: Callable[[], MetadataImage], own_epoch: Callable[[], int]) -> None:
        self._image = image
        self._own_epoch = own_epoch

    @property
    def own_epoch(self) -> int:
        """The epoch in which this broker registered."""
        return self._own_epoch()

    def live_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that is registered and not fenced."""
        broker = self._image().brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.epoch

    def is_leaving(self, broker_id: int) -> bool:
        """Whether the broker is in controlled shutdown."""
        broker = self._image().brokers.get(broker_id)
        return broker is not None and broker.in_controlled_shutdown

    def rack_of(self, broker_id: int) -> str | None:
        """The rack of a live broker."""
        broker = self._image().brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.rack
