"""The descriptor for Google's parser: the reader's, with numbers of the width and sign that were written.

With the reader's own descriptor, Google's parser would cut numbers to the size of their field, and treat an
enum's number without a name as absent in proto2. Both would silently give a wrong value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from penstock.arrow.protobuf.mapping import descriptor_of

F = FieldDescriptor
WrittenTypes: TypeAlias = dict[tuple[str, int], int]
"""The type with which a field was written, by the reader's message and the field's number."""

_UNSIGNED: Final = (F.TYPE_UINT32, F.TYPE_UINT64)
_VARINTS: Final = (F.TYPE_INT32, F.TYPE_INT64, *_UNSIGNED, F.TYPE_ENUM)
_ZIGZAG: Final = (F.TYPE_SINT32, F.TYPE_SINT64)
# Groups of types with the same wire form, so that the parser can read one as another.
_ALIKE: Final = (
    {*_VARINTS, F.TYPE_BOOL},
    set(_ZIGZAG),
    {F.TYPE_STRING, F.TYPE_BYTES},
    {F.TYPE_FIXED32, F.TYPE_SFIXED32},
    {F.TYPE_FIXED64, F.TYPE_SFIXED64},
)
_FIXED: Final = (F.TYPE_FIXED32, F.TYPE_SFIXED32, F.TYPE_FIXED64, F.TYPE_SFIXED64)


def are_alike(one: int, other: int) -> bool:
    """Whether a field of one type can be read as one of the other."""
    return one == other or any({one, other} <= each for each in _ALIKE)


def parsing_descriptor(files: bytes, message: str, wrote: WrittenTypes) -> Descriptor:
    """Return a message of serialized files (a FileDescriptorSet) for the parser.

    ``wrote`` has the written types where they are known.
    """
    widened = FileDescriptorSet.FromString(files)
    for file in widened.file:
        for each in file.message_type:
            _widen(each, f"{file.package}.{each.name}".lstrip("."), wrote)
    return descriptor_of(widened.SerializeToString(), message)


def _widen(message: DescriptorProto, full_name: str, wrote: Mapping[tuple[str, int], int]) -> None:
    for field in message.field:
        written = wrote.get((full_name, field.number), field.type)
        if field.type in _VARINTS:
            field.type = F.TYPE_UINT64 if written in _UNSIGNED else F.TYPE_INT64
            field.ClearField("type_name")
            field.ClearField("default_value")  # an enum's default is a name; an unset field becomes null
        elif field.type in _ZIGZAG:
            field.type = F.TYPE_SINT64
        elif field.type in _FIXED:
            field.type = written
    for nested in message.nested_type:
        _widen(nested, f"{full_name}.{nested.name}", wrote)
