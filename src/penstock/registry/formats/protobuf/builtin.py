"""Files that every schema may import without a reference: Google's types and Confluent's own.

They are the files that Confluent's registry has built in (`ProtobufSchema`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.type import (
    calendar_period_pb2,
    color_pb2,
    date_pb2,
    datetime_pb2,
    dayofweek_pb2,
    decimal_pb2,
    expr_pb2,
    fraction_pb2,
    interval_pb2,
    latlng_pb2,
    money_pb2,
    month_pb2,
    phone_number_pb2,
    postal_address_pb2,
    quaternion_pb2,
    timeofday_pb2,
)

from penstock.registry.formats.protobuf.from_descriptor import file_of
from penstock.registry.formats.protobuf.model import File
from penstock.registry.formats.protobuf.parser import parse

_GOOGLE: Final = (
    *(descriptor_pb2, any_pb2, source_context_pb2, type_pb2, api_pb2, duration_pb2, empty_pb2),
    *(field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2),
    *(calendar_period_pb2, color_pb2, date_pb2, datetime_pb2, dayofweek_pb2, decimal_pb2, expr_pb2),
    *(fraction_pb2, interval_pb2, latlng_pb2, money_pb2, month_pb2, phone_number_pb2),
    *(postal_address_pb2, quaternion_pb2, timeofday_pb2),
)
# Confluent's clients and converters put these into schemas; the numbers are theirs.
_META: Final = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
option java_package = "io.confluent.protobuf";
option java_outer_classname = "MetaProto";
message Meta {
  string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL: Final = """
syntax = "proto3";
package confluent.type;
option java_package = "io.confluent.protobuf.type";
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_VARIANT: Final = """
syntax = "proto3";
package confluent.type;
option java_package = "io.confluent.protobuf.type";
message Variant { bytes metadata = 1; bytes value = 2; }
"""


@cache
def builtin_files() -> Mapping[str, File]:
    """Return the files by their import paths, each after the files it imports itself."""
    files = {}
    for module in _GOOGLE:
        descriptor = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        files[descriptor.name] = file_of(descriptor)
    return {
        **files,
        "confluent/meta.proto": parse(_META),
        "confluent/type/decimal.proto": parse(_DECIMAL),
        "confluent/type/variant.proto": parse(_VARIANT),
    }
