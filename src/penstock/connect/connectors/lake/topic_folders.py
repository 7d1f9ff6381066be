"""Topics as folders: a transform can give a record any topic, also one that leads out of a folder."""

from __future__ import annotations

from penstock.connect.errors import DataError


def topic_folder(topic: str) -> str:
    """Return a topic that is the name of one folder. Raises DataError for others, such as ``..``."""
    is_plain = topic.isprintable() and topic not in ("", ".", "..")
    if not is_plain or "/" in topic or "\\" in topic:
        raise DataError(f"the record's topic {topic!r} is no name of a folder")
    return topic
