"""The cases of PostgreSQL's types and changes beside this file, and the configurations to run them with."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent

RUNS: dict[str, dict[str, str]] = {
    "defaults": {"skipped.operations": "none"},
    "metadata": {"provide.transaction.metadata": "true", "tombstones.on.delete": "false"},
    "strings": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "hex",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "map",
        "include.unknown.datatypes": "true",
        "unavailable.value.placeholder": "hex:00ff41",
    },
    "doubles": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "binary.handling.mode": "base64",
        "message.key.columns": "public.keyless:name;public.keyed:id,name",
        "money.fraction.digits": "0",
        "schema.name.adjustment.mode": "avro",
    },
    "nanoseconds": {"time.precision.mode": "nanoseconds", "binary.handling.mode": "base64-url-safe"},
    "adaptive": {"time.precision.mode": "adaptive", "field.name.adjustment.mode": "avro_unicode"},
    "microseconds": {"time.precision.mode": "microseconds"},
}
"""The configurations that Debezium runs with, by the name of the run."""

SNAPSHOT_RUNS: dict[str, dict[str, str]] = {
    "all": {},
    "filtered": {
        "publication.autocreate.mode": "filtered",
        "table.include.list": (
            "public\\.(keyed|keyless|toasted.*|empty_one),odd schema.odd-täble,public.secrets"
        ),
        "column.exclude.list": "public.keyed.amount,public.toasted.(ia|ba)",
        "column.mask.with.3.chars": "public.secrets.(star.*|n)",
        "column.mask.hash.SHA-256.with.salt.CzQMA0cB5K": "public.secrets.hash.*",
        "column.mask.hash.v2.MD5.with.salt.s.a": "public.secrets.md5.*",
        "column.truncate.to.2.chars": "public.secrets.short.*",
        "message.key.columns": "public.keyless:name",
        "snapshot.select.statement.overrides": "public.keyless",
        "snapshot.select.statement.overrides.public.keyless": (
            "select name, id from public.keyless where id > 1 order by id"
        ),
    },
}
"""The configurations that Debezium takes snapshots with."""


def type_cases() -> list[tuple[str, list[str]]]:
    """The types of type_cases.txt with their literals."""
    cases: list[tuple[str, list[str]]] = []
    for line in (HERE / "type_cases.txt").read_text().splitlines():
        if line.startswith("  "):
            cases[-1][1].extend(literal for literal in line.strip().split("; ") if literal)
        elif line and not line.startswith("#"):
            cases.append((line, []))
    return cases


def questions() -> str:
    """All that the recorded answers depend on."""
    texts = [(HERE / name).read_text() for name in ("type_cases.txt", "tables.sql", "changes.sql")]
    return "\n".join([*texts, json.dumps(RUNS)])


def snapshot_questions() -> str:
    """All that the recorded snapshots depend on."""
    texts = [(HERE / name).read_text() for name in ("type_cases.txt", "tables.sql", "snapshot_rows.sql")]
    return "\n".join([*texts, json.dumps(SNAPSHOT_RUNS)])


def snapshot_rows() -> list[str]:
    """The statements that fill the tables beside those of types."""
    return [each for each in (HERE / "snapshot_rows.sql").read_text().split(";\n") if each.strip()]


def tables_of_types() -> Iterator[str]:
    for number, (kind, _) in enumerate(type_cases()):
        yield f"create table t{number:03} (id int primary key, v {kind})"


def changes_of_types() -> Iterator[str]:
    for number, (kind, literals) in enumerate(type_cases()):
        for row, literal in enumerate(["null", *literals]):
            cast = literal if literal == "null" else f"({literal})::{kind}"
            yield f"insert into t{number:03} values ({row}, {cast})"


def other_changes() -> Iterator[list[str]]:
    """The statements of changes.sql, one list a transaction."""
    for block in re.split(r"^--.*\n", (HERE / "changes.sql").read_text(), flags=re.MULTILINE)[2:]:
        yield [statement for statement in block.split(";\n") if statement.strip()]
