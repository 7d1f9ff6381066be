"""A response whose size counts against a quota, so that it is known before the response is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.protocol.codec import Message


class SizedResponse(ABC):
    """A response that is made in full or empty, as the quota of its client allows."""

    @abstractmethod
    def size_bytes(self) -> int:
        """The size that counts against the quota."""

    @abstractmethod
    def in_full(self) -> Message:
        """Make the response, for a client within its quotas."""

    @abstractmethod
    def emptied(self) -> Message:
        """Make the response without data, for a client beyond a quota. It will ask for the same again."""
