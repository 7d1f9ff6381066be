"""The topics of a mirror as a consumer sees them: captured marks, and the ends of what is committed."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.mirroring.selection import topics_expression

_TIMEOUT_S: Final = 10.0
_MARKS_MAX: Final = 500
_WAIT_S: Final = 0.1
_QUIET: Final = 2
"""librdkafka's log level for critical errors; a broker that starts again is none."""


class Marks:
    """A reader of the topics with the prefix of a mirror."""

    def __init__(self, prefix: str, client: Mapping[str, Any]) -> None:
        """Connect with librdkafka's settings."""
        self._topic = f"{prefix}.message"
        self._changes = re.compile(topics_expression(prefix))
        settings = {"log_level": _QUIET, **client}
        self._admin = AdminClient(settings)
        self._consumer = Consumer(
            {
                **settings,
                "group.id": f"{prefix}-marks-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._is_assigned = False

    def __enter__(self) -> Marks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def has(self, token: str) -> bool:
        """Whether a mark was captured; all that was committed before it is in the topics then."""
        if not self._is_assigned:
            if self._topic not in self._topics():
                return False
            # Marks are few, and a run may look for one that another has written.
            self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
            self._is_assigned = True
        content = base64.b64encode(token.encode())
        found = self._consumer.consume(_MARKS_MAX, _WAIT_S)
        return any(content in (message.value() or b"") for message in found)

    def ends(self) -> dict[str, int] | None:
        """Return the ends of the topics with changes, up to which all is committed; None without a broker."""
        return self._offsets(OffsetSpec.latest())

    def starts(self) -> dict[str, int] | None:
        """Return the first offsets of the topics with changes; None without a broker."""
        return self._offsets(OffsetSpec.earliest())

    def _offsets(self, spec: OffsetSpec) -> dict[str, int] | None:
        topics = [topic for topic in self._topics() if self._changes.match(topic)]
        asked = {TopicPartition(topic, 0): spec for topic in topics}
        committed = IsolationLevel.READ_COMMITTED
        found = self._admin.list_offsets(asked, isolation_level=committed) if asked else {}
        try:
            return {place.topic: future.result(_TIMEOUT_S).offset for place, future in found.items()}
        except (KafkaException, TimeoutError):
            return None

    def _topics(self) -> list[str]:
        try:
            return [*self._consumer.list_topics(timeout=_TIMEOUT_S).topics]
        except KafkaException:
            return []  # the broker is about to start again
