"""The converter of Avro with a schema registry, as Confluent's AvroConverter.

    settings   the properties that decide how schemas are translated, and the names of their attributes
    to_avro    Avro schemas of Connect's
    from_avro  Connect's schemas of Avro's
    writing    values as Avro's binary data
    reading    Avro's binary data as values
    converter  the converter, which asks the registry

Schemas that contain themselves are refused: a schema of Connect is an immutable value here.
"""

from penstock.extras import needs_extra

with needs_extra("registry", "penstock.connect.converters.avro"):
    import penstock.registry.formats  # noqa: F401
