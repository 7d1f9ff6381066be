"""What every decision of the controller starts from, and what it ends in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from penstock.metadata.configs import BrokerConfig
from penstock.metadata.image import MetadataImage, ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import Message

R = TypeVar("R")


class Decision(NamedTuple, Generic[R]):
    """Records to append, in one batch or not at all, and the response once they are committed."""

    records: list[Message]
    response: R


class Refusal(Exception):
    """Part of a request cannot be done; the response carries the code and the message."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.default_message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class ControllerState:
    """The image with every record written so far, committed or not, and what else decisions depend on.

    ``new_uuid`` is the source of topic ids: random in a node, seeded in tests.
    """

    image: MetadataImage
    static_config: BrokerConfig
    new_uuid: Callable[[], bytes]

    def config(self) -> BrokerConfig:
        """The node's configuration with the dynamic configs of the image."""
        configs, broker = self.image.configs, str(self.static_config.node_id)
        return self.static_config.with_dynamic(
            configs.of(ResourceType.BROKER, ""), configs.of(ResourceType.BROKER, broker)
        )


def repeated(items: Iterable[R]) -> Iterator[R]:
    """Each item that occurs more than once, once."""
    seen: dict[R, int] = {}
    for item in items:
        seen[item] = seen.get(item, 0) + 1
    return (item for item, count in seen.items() if count > 1)
