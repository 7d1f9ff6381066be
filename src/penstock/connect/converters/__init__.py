"""Converters between Connect's values and the bytes of records and headers.

    converter      the interfaces
    plain          strings, bytes, numbers and booleans
    json           JSON, with schemas in each record or without
    avro           Avro, with schemas in a schema registry
    json_schema    JSON, with schemas in a schema registry
    headers        converters of headers
    names          the names of Java's classes, by which configurations select converters

A worker uses one converter for keys, one for values and one for headers. Converters know neither connectors
nor transforms, and do no I/O, except those that talk to a schema registry.
"""

from penstock.connect.converters.converter import Converter, HeaderConverter, RecordHeaders, SchemaAndValue
from penstock.connect.converters.names import CONVERTERS, HEADER_CONVERTERS, REGISTRY_CONVERTERS

__all__ = [
    "CONVERTERS",
    "HEADER_CONVERTERS",
    "REGISTRY_CONVERTERS",
    "Converter",
    "HeaderConverter",
    "RecordHeaders",
    "SchemaAndValue",
]
