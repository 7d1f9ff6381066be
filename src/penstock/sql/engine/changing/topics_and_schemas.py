"""The topics and registered schemas of sources.

They are created before the statement that needs them is logged, and deleted after the DROP was logged.
"""

from __future__ import annotations

import logging

from penstock.client.errors import ClientError
from penstock.sql.catalog import DataSource
from penstock.sql.engine.changing.applying import Applied
from penstock.sql.engine.changing.preparation import Prepared
from penstock.sql.engine.ground.cluster_topics import Topics
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.properties import SHUTDOWN_TIMEOUT, Values
from penstock.sql.engine.ground.registry_clients import registry_of, required_registry
from penstock.sql.engine.ground.service_topics import made_log_topic
from penstock.sql.engine.running.runner import Runner
from penstock.sql.formats import register_schemas
from penstock.sql.formats.registry_schemas import REGISTRY_FORMATS

log = logging.getLogger(__name__)


class TopicsAndSchemas:
    """Creates and deletes topics and schemas of sources, for one thread at a time."""

    def __init__(self, topics: Topics, runner: Runner) -> None:
        self._topics = topics
        self._runner = runner

    def make(self, prepared: Prepared, applied: Applied, values: Values) -> None:
        """Create the topic and register the schemas that a statement needs."""
        try:
            if prepared.topic is not None:
                self._topics.create(prepared.topic)
            if prepared.registers is not None:
                _register(applied.state.catalog.sources[prepared.registers], applied, values)
        except Exception:
            self.unmake(prepared)
            raise

    def unmake(self, prepared: Prepared) -> None:
        """Delete the topic that was created for a statement that was not logged."""
        if prepared.topic is None:
            return
        try:
            self._topics.delete([prepared.topic.name])
        except ClientError as error:
            log.warning(
                "cannot delete the topic of a refused statement topic=%s error=%s", prepared.topic.name, error
            )

    def delete(self, source: DataSource, values: Values) -> tuple[str, ...]:
        """Delete the topic and the schemas of a source that was dropped.

        The statement itself has been applied, so failures are returned as warnings.
        """
        timeout_ms = values.number(SHUTDOWN_TIMEOUT)
        running = self._runner.wait_until_gone(timeout_ms / 1000)
        if running:
            reason = f"{', '.join(running)} may still write to it, {timeout_ms} ms after it was ended"
            return (_not_deleted(source.topic, reason),)
        try:
            self._topics.delete([source.topic])
        except ClientError as error:
            return (_not_deleted(source.topic, str(error)),)
        client = registry_of(values)
        try:
            for side, format_ in (("key", source.key_format), ("value", source.value_format)):
                if client is not None and format_ in REGISTRY_FORMATS:
                    client.delete_subject(f"{source.topic}-{side}")
        except ClientError as error:
            return (f"The schemas of {source.topic} were not deleted: {error}",)
        return ()

    def delete_of_service(self, config: EngineConfig) -> tuple[str, ...]:
        """Delete the processing log of a service whose queries have ended, and return warnings.

        The host tracks its work in the command topic, which must exist until nothing of the queries is left.
        """
        timeout_ms = config.values.number(SHUTDOWN_TIMEOUT)
        left = self._runner.wait_until_buried(timeout_ms / 1000)
        topic = made_log_topic(config)
        if left:
            queries = ", ".join(left)
            return (f"State and internal topics of {queries} were not deleted within {timeout_ms} ms",)
        if topic is not None:
            self._topics.delete([topic])
        return ()


def _register(source: DataSource, applied: Applied, values: Values) -> None:
    formats = [each for each in (source.key_format, source.value_format) if each in REGISTRY_FORMATS]
    if not formats:
        return
    client = required_registry(values, f"the format {formats[0]}")
    is_result = source.name in applied.state.made_from
    register_schemas(source, client, is_result=is_result)


def _not_deleted(topic: str, reason: str) -> str:
    return f"The topic {topic} was not deleted: {reason}"
