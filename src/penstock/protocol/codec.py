"""Message classes, and their encoding and decoding at any version.

A class is built from its definition at first use, and so is the flat function that encodes or decodes one
version of it (see ``encoder`` and ``decoder``). Values are plain: ``str``, ``int``, ``bool``, ``float``,
``bytes`` (a UUID has 16 of them), ``list``, nested message structs, and None for null. ``records`` are
decoded as a ``memoryview`` of the input and never copied.

A field that a version does not have keeps its default when decoded, and is dropped when encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from operator import attrgetter
from typing import Any, ClassVar, Final, Protocol, TypeVar

from penstock.protocol import definition as definitions
from penstock.protocol.decoder import Decoder, DecoderInSteps, compile_decoder, compile_decoder_in_steps
from penstock.protocol.encoder import Encoder, EncoderInSteps, compile_encoder, compile_encoder_in_steps
from penstock.protocol.malformed import MalformedMessage, UnencodableMessage, UnsupportedVersion

__all__ = [
    "MalformedMessage",
    "Message",
    "MessageStruct",
    "Records",
    "UnencodableMessage",
    "UnsupportedVersion",
    "build_message_class",
]

M = TypeVar("M", bound="Message")

_SECRETS: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password", "stored_key", "server_key"})
"""Fields whose values ``repr`` hides, because it ends up in logs and errors."""


class Records(Protocol):
    """Records outside memory, for instance a slice of a segment file; ``len`` is their size in bytes."""

    def __len__(self) -> int: ...


class MessageStruct:
    """A struct of a message, with Kafka's field names as slots and equality by value."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[str, ...]] = ()
    _values: ClassVar[Callable[[object], object]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return type(self)._values(self) == type(self)._values(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(
            f"{name}={'[hidden]' if name in _SECRETS else repr(getattr(self, name))}" for name in self.FIELDS
        )
        return f"{type(self).__qualname__}({values})"


class Message(MessageStruct):
    """A top-level message."""

    __slots__ = ()
    KIND: ClassVar[str]
    """``request``, ``response``, ``record``, ``key``, ``value`` or ``message``."""
    ID: ClassVar[int]
    """The API key of a request or response, the id of a record, a key or a value; else -1."""
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    _definition: ClassVar[definitions.Message]
    _classes: ClassVar[dict[str, type]]
    _encoders: ClassVar[dict[int, Encoder]]
    _decoders: ClassVar[dict[int, Decoder]]
    _encoders_in_steps: ClassVar[dict[int, EncoderInSteps]]
    _decoders_in_steps: ClassVar[dict[int, DecoderInSteps]]

    def encode(self, version: int) -> bytes:
        """Encode this message as bytes.

        Raises UnencodableMessage for values without an encoding (including records that are not bytes: see
        ``encode_parts``), and UnsupportedVersion for a version that the message does not have.
        """
        parts: list[bytes] = []
        foreign: list[int] = []
        encoder = self._encoders.get(version) or self._compile_encoder(version)
        encoder(self, parts, foreign)
        if foreign:
            raise UnencodableMessage(f"{type(self).__name__} v{version}: records are not bytes")
        return b"".join(parts)

    def encode_parts(self, version: int) -> list[bytes | Records]:
        """Encode like ``encode``, but keep records that are not bytes as parts between the encoded bytes."""
        parts: list[bytes] = []
        foreign: list[int] = []
        encoder = self._encoders.get(version) or self._compile_encoder(version)
        encoder(self, parts, foreign)
        joined: list[bytes | Records] = []
        start = 0
        for index in foreign:
            joined += (b"".join(parts[start:index]), parts[index])
            start = index + 1
        joined.append(b"".join(parts[start:]))
        return joined

    @classmethod
    def decode(
        cls: type[M], version: int, buf: bytes | bytearray | memoryview, offset: int = 0
    ) -> tuple[M, int]:
        """Decode the message that starts at ``offset``, and return it with its end.

        Raises MalformedMessage or UnsupportedVersion.
        """
        decoder = cls._decoders.get(version) or cls._compile_decoder(version)
        return decoder(buf, offset)  # type: ignore[arg-type, return-value]

    def encode_in_steps(self, version: int) -> Generator[None, None, bytes]:
        """Encode a long message in a generator that yields often and returns the bytes."""
        parts: list[bytes] = []
        foreign: list[int] = []
        encoder = self._encoders_in_steps.get(version)
        if encoder is None:
            self._check_version(version)
            encoder = compile_encoder_in_steps(self._definition, version, self._classes)
            self._encoders_in_steps[version] = encoder
        yield from encoder(self, parts, foreign)
        if foreign:
            raise UnencodableMessage(f"{type(self).__name__} v{version}: records are not bytes")
        return b"".join(parts)

    @classmethod
    def decode_in_steps(
        cls: type[M], version: int, buf: bytes | bytearray | memoryview, offset: int = 0
    ) -> Generator[None, None, tuple[M, int]]:
        """Decode a long message in a generator that yields often and returns the result of ``decode``."""
        decoder = cls._decoders_in_steps.get(version)
        if decoder is None:
            cls._check_version(version)
            decoder = compile_decoder_in_steps(cls._definition, version, cls._classes)
            cls._decoders_in_steps[version] = decoder
        return decoder(buf, offset)  # type: ignore[arg-type, return-value]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether ``version`` has compact encodings and tagged fields (KIP-482)."""
        return version in cls._definition.flexible

    @classmethod
    def _compile_encoder(cls, version: int) -> Encoder:
        cls._check_version(version)
        encoder = cls._encoders[version] = compile_encoder(cls._definition, version, cls._classes)
        return encoder

    @classmethod
    def _compile_decoder(cls, version: int) -> Decoder:
        cls._check_version(version)
        decoder = cls._decoders[version] = compile_decoder(cls._definition, version, cls._classes)
        return decoder

    @classmethod
    def _check_version(cls, version: int) -> None:
        if version not in cls._definition.versions:
            raise UnsupportedVersion(f"{cls.__name__} has versions {cls._definition.versions}, not {version}")


def build_message_class(message: definitions.Message, module: str) -> type[Message]:
    """Build the class of a message, with its nested structs as attributes, for the module ``module``."""
    classes: dict[str, type] = {}
    for struct in message.structs.values():
        classes[struct.name] = _build_class(
            struct, MessageStruct, f"{message.name}.{struct.name}", module, classes
        )
    members: dict[str, Any] = {
        "KIND": message.kind,
        "ID": message.id,
        "MIN_VERSION": message.versions.low,
        "MAX_VERSION": message.versions.high,
        "_definition": message,
        "_classes": classes,
        "_encoders": {},
        "_decoders": {},
        "_encoders_in_steps": {},
        "_decoders_in_steps": {},
        **classes,
    }
    cls = _build_class(message.body, Message, message.name, module, classes, members)
    classes[message.name] = cls
    return cls


_UNSET = object()


def _build_class(
    struct: definitions.Struct,
    base: type,
    qualified_name: str,
    module: str,
    classes: dict[str, type],
    members: dict[str, Any] | None = None,
) -> type:
    names = tuple(field.name for field in struct.fields)
    namespace: dict[str, Any] = {
        "__slots__": names,
        "__module__": module,
        "__qualname__": qualified_name,
        "__init__": _build_init(struct, classes),
        "FIELDS": names,
        "_values": attrgetter(*names) if names else (lambda self: ()),
        **(members or {}),
    }
    return type(struct.name, (base,), namespace)


def _build_init(struct: definitions.Struct, classes: dict[str, type]) -> Callable[..., None]:
    """Generate a keyword-only constructor with Kafka's defaults, as source code so that it costs one call."""
    parameters, body = ["self", "*"], []
    for field in struct.fields:
        if not field.needs_fresh_default:
            parameters.append(f"{field.name}={field.default_value!r}")
            body.append(f" self.{field.name} = {field.name}")
        else:
            fresh = "[]" if field.is_array else f"classes[{field.type_name!r}]()"
            parameters.append(f"{field.name}=UNSET")
            body.append(f" self.{field.name} = {fresh} if {field.name} is UNSET else {field.name}")
    if not struct.fields:
        parameters, body = ["self"], [" pass"]
    source = f"def __init__({', '.join(parameters)}):\n" + "\n".join(body)
    namespace: dict[str, Any] = {"UNSET": _UNSET, "classes": classes}
    exec(compile(source, f"<constructor of {struct.name}>", "exec"), namespace)
    init: Callable[..., None] = namespace["__init__"]
    return init
