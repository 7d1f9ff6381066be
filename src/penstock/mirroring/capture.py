"""The properties of a mirror's worker and connector."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import javaproperties

from penstock.mirroring.database import Database
from penstock.mirroring.selection import MARKS, Selection, expression

_CONNECTOR: Final = "io.debezium.connector.postgresql.PostgresConnector"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_FILES: Final = "org.apache.kafka.common.config.provider.FileConfigProvider"
_PASSWORDS: Final = ("password", "sslpassword")
_SESSION_TIMEOUT_MS: Final = 6000
"""How long a killed worker keeps its place in the group, for which its successor waits; brokers' least."""


def worker_properties(group: str, bootstrap: str, client: Mapping[str, str]) -> dict[str, str]:
    """The properties of a worker whose only connector is the mirror's."""
    return {
        **client,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "exactly.once.source.support": "enabled",
        "session.timeout.ms": str(_SESSION_TIMEOUT_MS),
        "heartbeat.interval.ms": str(_SESSION_TIMEOUT_MS // 3),
        # Nobody else could take over the connector, so nothing is gained by waiting for a lost worker.
        "scheduled.rebalance.max.delay.ms": "0",
        "config.providers": "file",
        "config.providers.file.class": _FILES,
    }


def connector_properties(
    prefix: str, database: Database, selection: Selection, slot: str, publication: str
) -> dict[str, str]:
    """The configuration of the connector, without the password.

    Each topic has one partition, so that truncates and changes of keys have their place among other changes.
    """
    return {
        "connector.class": _CONNECTOR,
        "tasks.max": "1",
        "topic.prefix": prefix,
        **database.connector_properties(),
        **selection.connector_properties(),
        "slot.name": slot,
        "publication.name": publication,
        "publication.autocreate.mode": "disabled",
        "message.prefix.include.list": expression(MARKS),
        "skipped.operations": "none",
        "transaction.boundary": "connector",
        "exactly.once.support": "required",
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "true",
        "value.converter.decimal.format": "NUMERIC",
        "header.converter": _JSON,
        "header.converter.schemas.enable": "false",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "-1",
        # The schemas in the records repeat, and compress to almost nothing.
        "producer.override.compression.type": "zstd",
    }


def with_passwords(properties: Mapping[str, str], database: Database, file: Path) -> dict[str, str]:
    """Return the configuration with references to passwords, which stay in a file of their own.

    Without one in the database's URL, libpq's own ways apply: PGPASSWORD and ~/.pgpass.
    """
    given = {f"database.{name}": database.parameters.get(name) for name in _PASSWORDS}
    secrets = {name: value for name, value in given.items() if value is not None}
    if secrets:
        write_private(file, secrets)
    return {**properties, **{name: f"${{file:{file.absolute()}:{name}}}" for name in secrets}}


def write_private(file: Path, properties: Mapping[str, str]) -> None:
    """Write a file of properties that other users cannot read."""
    file.touch(mode=0o600)
    file.chmod(0o600)  # it may be there already
    file.write_text(javaproperties.dumps(properties, timestamp=False))
