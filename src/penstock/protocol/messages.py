"""All messages of the protocol, as classes that are built at first use: ``messages.FetchRequest``.

The classes come from ``definitions/*.kmsg``. The types of their fields are in ``messages.pyi``, which
``python -m penstock.protocol.generate_stubs`` writes.
"""

from __future__ import annotations

from penstock.protocol.codec import Message, MessageStruct, Records, build_message_class
from penstock.protocol.definition import library
from penstock.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text

__all__ = [  # noqa: RUF022
    "Message",
    "MessageStruct",
    "Records",
    "ZERO_UUID",
    "message_class",
    "uuid_from_text",
    "uuid_to_text",
]


def message_class(name: str) -> type[Message]:
    """The class called ``name``. Raises KeyError if no definition has that name."""
    made = globals().get(name)
    if made is None:
        made = globals()[name] = build_message_class(library.message(name), __name__)
    return made


def __getattr__(name: str) -> type[Message]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return message_class(name)
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no message {name!r}") from None
