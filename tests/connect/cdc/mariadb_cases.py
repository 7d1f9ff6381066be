"""The cases of MariaDB's types and changes beside this file, and the configurations to run them with."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent

RUNS: dict[str, dict[str, str]] = {
    "defaults": {"skipped.operations": "none"},
    "strings": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "hex",
        "bigint.unsigned.handling.mode": "precise",
        "tombstones.on.delete": "false",
        "table.exclude.list": "cases.left_out",
    },
    "doubles": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "binary.handling.mode": "base64",
        "message.key.columns": "cases.keyless:name;cases.pair:v",
        "schema.name.adjustment.mode": "avro",
        "column.exclude.list": "cases.keyed.amount",
    },
    "nanoseconds": {
        "time.precision.mode": "nanoseconds",
        "binary.handling.mode": "base64-url-safe",
        "field.name.adjustment.mode": "avro_unicode",
        "column.mask.with.3.chars": "cases.keyless.name",
        "column.mask.hash.v2.MD5.with.salt.s": "cases.keyed.name",
        "column.truncate.to.2.chars": "cases.pair.a",
    },
    "microseconds": {"time.precision.mode": "microseconds"},
}
"""The configurations that Debezium runs with, by the name of the run."""


def type_cases() -> list[tuple[str, list[str]]]:
    """The types of mariadb_types.txt with their literals."""
    cases: list[tuple[str, list[str]]] = []
    for line in (HERE / "mariadb_types.txt").read_text().splitlines():
        if line.startswith("  "):
            cases[-1][1].extend(literal for literal in line.strip().split("; ") if literal)
        elif line and not line.startswith("#"):
            cases.append((line, []))
    return cases


def tables_of_types() -> Iterator[str]:
    for number, (kind, _) in enumerate(type_cases()):
        yield f"create table t{number:03} (id int primary key, v {kind})"


def changes_of_types() -> Iterator[str]:
    for number, (kind, literals) in enumerate(type_cases()):
        rows = [*([] if "not null" in kind else ["null"]), *literals]
        for row, literal in enumerate(rows):
            yield f"insert into t{number:03} values ({row}, {literal})"


def other_changes() -> Iterator[list[str]]:
    """The statements of mariadb_changes.sql, one list a block."""
    text = (HERE / "mariadb_changes.sql").read_text()
    for block in re.split(r"^--.*\n", text, flags=re.MULTILINE)[2:]:
        yield [statement for statement in block.split(";\n") if statement.strip()]


def is_ddl(block: list[str]) -> bool:
    return block[0].split()[0] in ("create", "alter", "rename", "truncate", "drop")


def questions() -> str:
    """All that the recorded answers depend on."""
    texts = [(HERE / name).read_text() for name in ("mariadb_types.txt", "mariadb_changes.sql")]
    return "\n".join([*texts, json.dumps(RUNS)])
