"""The rules for topic names."""

from __future__ import annotations

import re
from typing import Final

from penstock.metadata.controller.state import Refusal
from penstock.protocol.errors import ErrorCode

CLUSTER_METADATA: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))

_MAX_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise Refusal INVALID_TOPIC_EXCEPTION, in Kafka's words, unless ``name`` is a legal topic name."""
    if problem := _problem(name):
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def is_valid_topic_name(name: str) -> bool:
    return _problem(name) is None


def _problem(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """The name in metrics, where dots become underscores; topics must not have the same one."""
    return name.replace(".", "_")
