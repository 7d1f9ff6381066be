"""The task of the generator: each record is a function of the seed, the task and the record's number.

The offset has the number of the next record, and the seed if the task has chosen it. So a restart repeats
and skips nothing, even if the seed is not configured.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from penstock.connect.connector.source import SourceTask
from penstock.connect.connectors.generator import definition as keys
from penstock.connect.connectors.generator.quickstarts import QUICKSTARTS
from penstock.connect.connectors.generator.values import Value, values_of
from penstock.connect.data.records import SourceRecord
from penstock.connect.data.schema import Schema, Type
from penstock.connect.errors import ConfigInvalid

ITERATION: Final = "current.iteration"
SEED: Final = "random.seed"
_WAIT_MAX_S: Final = 0.5
"""Limit on the wait in one call, after which the worker may stop the task."""


class GeneratedRecords:
    """The schema, the key and the values of a configuration."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raise ConfigInvalid if there is not one schema, or if it cannot be used."""
        text, key_field = schema_text(config)
        self.schema: Schema
        self.value: Value
        self.schema, self.value = values_of(text)
        self.key_field = config[keys.KEY_FIELD] or key_field
        self.key_schema: Schema | None = None
        if self.key_field:
            found = self.schema.field(self.key_field) if self.schema.type is Type.STRUCT else None
            if found is None:
                raise ConfigInvalid(
                    f"the schema has no field '{self.key_field}', which {keys.KEY_FIELD} names"
                )
            self.key_schema = found.schema


class DatagenTask(SourceTask):
    """Generates the records of one task."""

    definition = keys.DEFINITION
    exactly_once = True

    def start(self, config: Mapping[str, Any]) -> None:
        self._records = GeneratedRecords(config)
        self._topic: str = config[keys.TOPIC]
        self._task: int = config[keys.TASK]
        self._partition = {keys.TASK: self._task}
        stored = self.context.offset(self._partition) or {}
        self._number: int = stored.get(ITERATION, 0)
        seed = config[keys.SEED]
        self._seed: int = stored.get(SEED, secrets.randbits(63)) if seed is None else seed
        iterations: int = config[keys.ITERATIONS]
        self._end = iterations if iterations >= 0 else None
        self._interval_s = config[keys.INTERVAL] / 1000
        self._due_s = time.monotonic()

    def poll(self) -> Sequence[SourceRecord]:
        if self._number == self._end:
            return []
        if self._interval_s <= 0:
            left = keys.BATCH if self._end is None else self._end - self._number
            return [self._next() for _ in range(min(keys.BATCH, left))]
        wait_s = self._due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(min(wait_s, _WAIT_MAX_S))
            if wait_s > _WAIT_MAX_S:
                return []
        record = self._next()
        # Not part of what is generated, so it needs no seed.
        self._due_s = time.monotonic() + secrets.SystemRandom().uniform(0, self._interval_s)
        return [record]

    def _next(self) -> SourceRecord:
        records, number = self._records, self._number
        chance = Random(((self._seed & (1 << 64) - 1) << 96) | self._task << 64 | number)
        value = records.value(chance, number)
        self._number += 1
        return SourceRecord(
            topic=self._topic,
            key=value[records.key_field] if records.key_field else None,
            key_schema=records.key_schema,
            value=value,
            value_schema=records.schema,
            source_partition=self._partition,
            source_offset={ITERATION: self._number, SEED: self._seed},
        )


def schema_text(config: Mapping[str, Any]) -> tuple[str, str]:
    """Return the configured schema, and the key's field of a quickstart. Raises ConfigInvalid."""
    names = (keys.SCHEMA, keys.SCHEMA_FILE, keys.QUICKSTART)
    if sum(bool(config[name]) for name in names) != 1:
        raise ConfigInvalid(f"The generator needs one of {', '.join(names)}.")
    if config[keys.QUICKSTART]:
        return QUICKSTARTS[config[keys.QUICKSTART]]
    if config[keys.SCHEMA]:
        return config[keys.SCHEMA], ""
    try:
        return Path(config[keys.SCHEMA_FILE]).read_text(), ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"the schema of the generator cannot be read: {error}") from error
