"""ASSERT TOPIC and ASSERT SCHEMA: check that something exists, now or within a timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.registry.client.errors import RegistryRefused
from penstock.registry.client.registry import RegistryClient
from penstock.sql.engine.ground.cluster_topics import Topics
from penstock.sql.engine.ground.entities import AssertSchemaEntity, AssertTopicEntity
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.properties import Values
from penstock.sql.language import statements as s

_LOOK_S: Final = 0.1


def assert_topic(
    check: s.AssertTopic, text: str, topics: Topics, values: Values, closing: threading.Event
) -> AssertTopicEntity:
    """Wait until a topic is as asserted.

    Raises EngineError if that takes too long, or if the engine is ``closing``.
    """

    def problem() -> str | None:
        found = topics.shape(check.topic)
        if check.absent:
            return None if found is None else f"Topic {check.topic} exists"
        if found is None:
            return f"Topic {check.topic} does not exist"
        sizes = {"PARTITIONS": found.partitions, "REPLICAS": found.replication}
        wrong = []
        for each in check.properties:
            name = each.name.upper()
            if name not in sizes:
                wrong.append(f"Cannot assert unknown topic property: {each.name}")
            elif each.value.name != str(sizes[name]):
                wrong.append(
                    f"Mismatched configuration for topic {check.topic}: For config {name.lower()}, expected "
                    f"{each.value.name} got {sizes[name]}"
                )
        return "\n".join(wrong) or None

    _wait(problem, check.timeout_ms, values.number("ksql.assert.topic.default.timeout.ms"), closing)
    return AssertTopicEntity(statement_text=text, topic_name=check.topic, exists=not check.absent)


def assert_schema(
    check: s.AssertSchema, text: str, client: RegistryClient, values: Values, closing: threading.Event
) -> AssertSchemaEntity:
    """Wait until a schema is as asserted. Raises EngineError like `assert_topic`, or RegistryUnreachable."""
    named = "" if check.subject is None else f" subject name {check.subject}"
    numbered = "" if check.schema_id is None else f" id {check.schema_id}"

    def problem() -> str | None:
        there = _has_schema(check, client)
        if there is not check.absent:
            return None
        return f"Schema with{named}{numbered} {'exists' if there else 'does not exist'}"

    _wait(problem, check.timeout_ms, values.number("ksql.assert.schema.default.timeout.ms"), closing)
    return AssertSchemaEntity(
        statement_text=text, subject=check.subject, id=check.schema_id, exists=not check.absent
    )


def _has_schema(check: s.AssertSchema, client: RegistryClient) -> bool:
    try:
        if check.subject is None:
            assert check.schema_id is not None, "the grammar asks for a subject or an id"
            client.by_id(check.schema_id)
            return True
        if check.schema_id is None:
            client.latest(check.subject)
            return True
        versions = (client.version(check.subject, each) for each in client.versions(check.subject))
        return any(each.id == check.schema_id for each in versions)
    except RegistryRefused as error:
        if error.is_absence:
            return False
        raise


def _wait(
    problem: Callable[[], str | None], timeout_ms: int | None, default_ms: int, closing: threading.Event
) -> None:
    deadline = time.monotonic() + (default_ms if timeout_ms is None else timeout_ms) / 1000
    while (found := problem()) is not None:
        if time.monotonic() >= deadline:
            raise EngineError(found, ErrorCode.ASSERTION_FAILED)
        if closing.wait(_LOOK_S):
            raise EngineError(f"{found}; the server is shutting down", ErrorCode.SERVER_SHUTTING_DOWN)
