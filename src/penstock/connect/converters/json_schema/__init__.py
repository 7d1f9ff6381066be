"""The converter of JSON with schemas in a schema registry, as Confluent's JsonSchemaConverter.

    to_json_schema     JSON Schemas of Connect's schemas
    from_json_schema   Connect's schemas of JSON Schemas
    writing, reading   where values differ from those of JsonConverter
    converter          the converter, which asks the registry

Schemas that contain themselves are refused: a schema of Connect is an immutable value here.
"""

from penstock.extras import needs_extra

with needs_extra("registry", "penstock.connect.converters.json_schema"):
    import penstock.registry.formats  # noqa: F401
