"""Asks Kafka Connect's own transforms, in a JVM, many questions at once, and compares our records."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from connect.converters.connect_values import (
    comparable,
    exists_in_python,
    optional_schema,
    shown_schema,
    shown_value,
    value_of,
)
from kafka_node import JAVA, PROGRAM_OPTIONS, class_data, compiled
from penstock.connect.data.records import ConnectRecord, Header, SinkRecord, SourceRecord
from penstock.connect.errors import ConfigInvalid, ConnectError, DataError

HERE = Path(__file__).parent
NOTATION = HERE.parent / "converters" / "KafkaConverters.java"
ORACLE = HERE / "KafkaTransforms.java"
IN_ENGLISH = ("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US")
TIMEOUT_S = 600
ERRORS = {
    "DataException": DataError,
    "SchemaBuilderException": DataError,
    "ConnectException": ConnectError,
    "ConfigException": ConfigInvalid,
}
"""Our classes of Connect's exceptions. Where Connect has others, any ConnectError is right."""
SWAPPED = re.compile(
    r"Invalid value java\.lang\.IllegalArgumentException: .* for configuration (.*)", re.DOTALL
)
"""Kafka mistakes an exception for a value where it reports a pattern or a type."""
OTHER_TEXTS = (
    "null used for required field",
    "Invalid Java object for schema",
    "Struct schemas do not match.",
)
"""Where a record lacks a value, we may find another fault first. Other wrong values have our own text."""
UNEQUAL_AFTER = ("Timestamp missing on record: ", "Invalid regex: ", "static field: ")
"""What follows is the text of a record, of an exception or of an object in Java."""

Described = Any


def answers(
    libs: Path, directory: Path, questions: list[dict[str, Any]], plugins: Path | None = None
) -> list[Any]:
    """Return Java's answer to each question; {"error": …, "message": …} if it raised an exception.

    ``plugins`` is a directory with the jars of transforms that are not Kafka's.
    """
    asked, answered = directory / "questions", directory / "answers"
    asked.write_text("".join(json.dumps(question) + "\n" for question in questions), encoding="utf-8")
    class_path = f"{libs}/*" if plugins is None else f"{libs}/*:{plugins}/*"
    for source in (NOTATION, ORACLE):
        class_path += f":{compiled(class_path, source)}"
    options = (*class_data(libs), *PROGRAM_OPTIONS, *IN_ENGLISH)
    command = [*JAVA, *options, "-cp", class_path, "org.apache.kafka.connect.data.KafkaTransforms"]
    done = subprocess.run(
        [*command, asked, answered], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in answered.read_text().split("\n")[:-1]]
    assert len(found) == len(questions)
    return found


def record_of(given: Described) -> ConnectRecord:
    """Build the record of a description."""
    common: dict[str, Any] = {
        "topic": given["topic"],
        "partition": given["partition"],
        "key": value_of(given["key"]),
        "key_schema": optional_schema(given["key_schema"]),
        "value": value_of(given["value"]),
        "value_schema": optional_schema(given["value_schema"]),
        "timestamp_ms": given["timestamp"],
        "headers": tuple(
            Header(name, value_of(value), optional_schema(schema)) for name, schema, value in given["headers"]
        ),
    }
    if given["sink"]:
        return SinkRecord(offset=given["offset"], **common)
    return SourceRecord(source_partition={"file": "a"}, source_offset={"position": 1}, **common)


def shown_record(record: ConnectRecord | None) -> Described:
    """Describe a record as the Java program does."""
    if record is None:
        return None
    return {
        "sink": isinstance(record, SinkRecord),
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp_ms,
        "key_schema": shown_schema(record.key_schema),
        "key": shown_value(record.key),
        "value_schema": shown_schema(record.value_schema),
        "value": shown_value(record.value),
        "headers": [
            [each.key, shown_schema(each.schema), shown_value(each.value)] for each in record.headers
        ],
    }


def is_error(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.keys() == {"error", "message"}


def difference(answer: Any, ours: Callable[[], Any], *, any_text: bool = False) -> str | None:
    """Compare our answer to a question with Java's. Returns how they differ.

    Errors have the same texts, except if ``any_text`` is set.
    """
    try:
        found = comparable(ours())
    except ConnectError as error:
        if is_error(answer):
            same = says(error, answer, any_text=any_text)
        else:
            same = not is_possible(answer)
        return None if same else f"ours: {error!r}\nJava: {answer}"
    if is_error(answer) and re.search(r"(element of array|(key|value) of map) field", answer["message"]):
        return None  # numbers have no width in Python
    return None if found == comparable(answer) else f"ours: {found}\nJava: {comparable(answer)}"


def says(error: ConnectError, answer: Any, *, any_text: bool) -> bool:
    """Whether an error has Java's class and text, but for the texts of other Java classes in it."""
    java = answer["message"]
    if any(other in java for other in OTHER_TEXTS):
        return True
    if not isinstance(error, ERRORS.get(answer["error"], ConnectError)):
        return False
    if any_text or answer["error"] not in ERRORS:
        return True
    java = java.replace("java.util.LinkedHashMap", "java.util.HashMap")
    if (swapped := SWAPPED.fullmatch(java)) is not None:
        java = swapped[1]
    for cut in UNEQUAL_AFTER:
        if cut in java:
            return str(error).startswith(java.partition(cut)[0] + cut)
    return str(error) == java


def is_possible(answer: Any) -> bool:
    """Whether Python has the dates of Java's answer."""
    return exists_in_python(list(answer.values()) if isinstance(answer, dict) else answer)
