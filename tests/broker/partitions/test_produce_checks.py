"""The checks of produced batches, beside those of Apache Kafka's LogValidator."""

import subprocess
from base64 import b64encode
from pathlib import Path
from random import Random
from time import time_ns
from typing import NamedTuple, NoReturn

import pytest

from damaged_batches import damages
from kafka_node import java_command
from penstock.broker.partitions.produce_checks import BatchChecks
from penstock.broker.partitions.produce_conversion import RecordsRefused, convert
from penstock.broker.partitions.schema_validation import NoSchemas, SchemaRule
from penstock.broker.partitions.topic_settings import TopicSettings
from penstock.protocol import batch
from penstock.protocol.batch import BatchHeader, MalformedRecords
from penstock.protocol.compression import Codec, compress
from penstock.protocol.records import Record, assemble_batch, encode_batch, records_section
from penstock.storage.config import LogConfig

NOW_MS = time_ns() // 1_000_000
HERE = Path(__file__).parent
ROWS = [Record(0, NOW_MS + number, None, b"value %d" % number) for number in range(20)]
RANDOM_BATCHES = 3_000
REFUSED_ONLY_HERE = ("incorrect header check", "unknown header flags set", "ERROR_frameType_unknown")
"""Bytes behind the end of a gzip or lz4 stream and reserved flags of gzip, which Java's readers ignore."""


class NoRegistry:
    """The schema ids where no registry is configured."""

    def subjects_of(self, schema_id: int, *, fresh: bool = False) -> NoReturn:
        raise NoSchemas("no registry is configured")

    def alias_of(self, subject: str, *, fresh: bool = False) -> NoReturn:
        raise NoSchemas("no registry is configured")


class ConfiguredTopic(NamedTuple):
    config: LogConfig
    topic: str = "t"
    partition: int = 0
    compression_levels: dict[int, int] = {}  # noqa: RUF012  (a test's constant)
    schema_rules: tuple[SchemaRule, ...] = ()


def checked(data: bytes, *, validates: bool = True, in_worker: bool = False) -> int | str:
    """The largest timestamp of the batch after its check, or the reason for its refusal."""
    config = LogConfig()
    records = bytearray(data)
    header = batch.parse_header(records)
    found: BatchHeader | None = None
    try:
        if not in_worker:
            settings = TopicSettings(config, {}, validates_records=validates)
            found = BatchChecks(settings, lambda: NOW_MS).check(header, memoryview(records))
        if found is None:
            convert(records, ConfiguredTopic(config), NOW_MS, NoRegistry())
    except (MalformedRecords, RecordsRefused) as error:
        return str(error)
    corrected = batch.parse_header(records)
    assert found is None or found == corrected
    assert batch.crc_is_valid(records, corrected)
    return corrected.max_timestamp


@pytest.mark.parametrize("codec", Codec)
def test_every_damage_is_refused(codec: Codec) -> None:
    for in_worker in (False, True):
        assert checked(encode_batch(ROWS, compression=codec), in_worker=in_worker) == NOW_MS + 19
        for name, data in damages(ROWS, codec).items():
            assert isinstance(checked(data, in_worker=in_worker), str), name


@pytest.mark.parametrize("codec", Codec)
def test_headers_are_trusted_where_the_operator_says_so(codec: Codec) -> None:
    for name, data in damages(ROWS, codec).items():
        assert checked(data, validates=False) == NOW_MS + 19, name


def random_batch(random: Random) -> bytes:
    """A batch that is sound, or damaged at one of its bytes, before or after its compression."""
    codec = random.choice(list(Codec))
    rows = [
        Record(
            0,
            NOW_MS + random.randrange(-5000, 5000),
            random.choice((None, b"", b"key")),
            random.choice((None, b"", b"value" * random.randrange(20))),
            [("h", random.choice((None, b"x")))] * random.choice((0, 0, 2)),
        )
        for _ in range(random.randrange(1, 8))
    ]
    data = encode_batch(rows, compression=codec)
    header = batch.parse_header(data)
    section = bytearray(records_section(data, header))
    damage = random.randrange(4)
    if damage == 1:
        section[random.randrange(len(section))] = random.randrange(256)
    payload = bytearray(compress(codec, section))
    if damage == 2:
        payload[random.randrange(len(payload))] = random.randrange(256)
    if damage == 3:
        header = header._replace(max_timestamp=random.choice((-1, NOW_MS - 9000, NOW_MS + 5000)))
    return bytes(assemble_batch(header, payload))


def answers_of_kafka(batches: list[bytes], libs: Path) -> list[int | str]:
    done = subprocess.run(
        java_command(libs, str(HERE / "KafkaValidator.java")),
        input=b"".join(b64encode(data) + b"\n" for data in batches),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.decode().splitlines()
    return [int(line) if line.lstrip("-").isdigit() else line for line in lines]


@pytest.mark.kafka
def test_kafka_refuses_or_cannot_read_the_same_batches(kafka_libs: Path) -> None:
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    random = Random(seed)
    batches = {f"random {number}": random_batch(random) for number in range(RANDOM_BATCHES)}
    for codec in Codec:
        batches |= {f"{codec.name} {name}": data for name, data in damages(ROWS, codec).items()}
    answers = answers_of_kafka(list(batches.values()), kafka_libs)
    differing = {}
    for (name, data), of_kafka in zip(batches.items(), answers, strict=True):
        ours = checked(data)
        if isinstance(ours, str):
            agree = isinstance(of_kafka, str) or any(reason in ours for reason in REFUSED_ONLY_HERE)
        else:
            agree = ours == of_kafka
        if not agree:
            differing[name] = (ours, of_kafka, data)
    assert differing == {}
