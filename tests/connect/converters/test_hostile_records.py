"""Records that are damaged give a value or a DataError, whatever converter reads them."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from avro_chance import AvroChance
from connect_values import schema_of, value_of
from converter_oracle import seed

from long_run import repetitions
from penstock.connect.converters import Converter
from penstock.connect.converters.avro.converter import AvroConverter
from penstock.connect.converters.json.converter import JsonConverter
from penstock.connect.converters.json_schema.converter import JsonSchemaConverter
from penstock.connect.errors import DataError
from small_registry import SmallRegistry

FRAME_BYTES = 5
TOPICS = 5
NUMBERS = ("1" * 5_000, "1e99999999999999999999", "1e6500", "-1e-999999999999", "1e400")


@pytest.fixture
def converters() -> Iterator[list[Converter]]:
    with SmallRegistry().running() as registry:
        made: list[Converter] = [JsonConverter(), JsonConverter(), AvroConverter(), JsonSchemaConverter()]
        for each in made:
            each.configure({"schema.registry.url": registry.url}, False)
        made[1].configure({"schemas.enable": "false"}, False)
        yield made


def damaged(chance: AvroChance, data: bytes, begin: int) -> bytes:
    """Change, remove or insert some bytes behind ``begin``."""
    found = bytearray(data)
    for _ in range(chance.random.randint(1, 3)):
        at = chance.random.randint(min(begin, len(found)), len(found))
        match chance.random.randrange(3):
            case 0 if at < len(found):
                found[at] = chance.random.randrange(256)
            case 1:
                del found[at : at + chance.random.randint(1, 4)]
            case _:
                found[at:at] = chance.random.randbytes(chance.random.randint(1, 3))
    return bytes(found)


@pytest.mark.longer
def test_damaged_records_are_no_other_errors(converters: list[Converter]) -> None:
    chance = AvroChance(seed())
    for number in range(repetitions("PENSTOCK_CONVERTER_CASES", 60, 2_000)):
        described = chance.schema(2)
        schema, value = schema_of(described), value_of(chance.value(described))
        topic = f"topic{number % TOPICS}"
        for converter in converters:
            begin = 0 if isinstance(converter, JsonConverter) else FRAME_BYTES
            try:
                data = converter.to_bytes(topic, schema, value)
            except DataError:
                continue
            for _ in range(10 if data else 0):
                assert data is not None
                with suppress(DataError):
                    converter.from_bytes(topic, damaged(chance, data, begin))


@pytest.mark.parametrize(
    "number", ["1" * 5_000, "1e99999999999999999999", "1e6500", "-1e-999999999999", "1e400"]
)
@pytest.mark.parametrize("type_", ["int8", "int64", "float", "double", "string", "boolean"])
def test_numbers_of_any_size_are_no_other_errors(number: str, type_: str) -> None:
    of = JsonConverter()
    of.configure({}, False)
    with suppress(DataError):
        of.from_bytes("topic", f'{{"schema":{{"type":"{type_}"}},"payload":{number}}}'.encode())


def test_deep_values_without_schemas_are_no_other_errors(converters: list[Converter]) -> None:
    avro = converters[2]
    assert avro.to_bytes("topic", None, [1]) is not None
    array = b"\0" * 7 + b"\x02\x02"  # the first field with a value is an array of one element
    with pytest.raises(DataError, match="nested too deeply"):
        avro.from_bytes("topic", b"\0\0\0\0\x01" + array * 50_000)
