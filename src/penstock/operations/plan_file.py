"""Plans as files, in the JSON that Apache Kafka's kafka-reassign-partitions writes and reads."""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from penstock.client.connections.metadata import TopicPartition
from penstock.operations.placement import Assignment

_VERSION = 1


class BadPlan(ValueError):
    """The text is no valid plan; the message gives the position and what was expected."""


def write_plan(planned: Assignment) -> str:
    """Write a plan as text."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in sorted(planned.items())
    ]
    lines = ",\n".join(f"  {json.dumps(partition)}" for partition in partitions)
    return f'{{"version": {_VERSION}, "partitions": [\n{lines}\n]}}\n'


def read_plan(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Read the plan in *text*; other fields, such as log_dirs, are ignored. Raises BadPlan."""
    try:
        plan = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadPlan(f"line {error.lineno}: {error.msg}, expected JSON") from None
    if not isinstance(plan, dict) or plan.get("version") != _VERSION:
        raise BadPlan(f'expected {{"version": {_VERSION}, "partitions": […]}}, found {text[:60]!r}')
    entries = plan.get("partitions")
    if not isinstance(entries, list) or not entries:
        raise BadPlan(f'"partitions": expected a list of partitions, found {entries!r}')
    planned: dict[TopicPartition, tuple[int, ...]] = {}
    for number, entry in enumerate(entries):
        tp, replicas = _partition(f"partitions[{number}]", entry)
        if tp in planned:
            raise BadPlan(f"partitions[{number}]: {tp} appears twice")
        planned[tp] = replicas
    return planned


def _partition(where: str, entry: Any) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(entry, dict):
        raise BadPlan(f'{where}: expected {{"topic": …, "partition": …, "replicas": […]}}, found {entry!r}')
    topic, partition, replicas = entry.get("topic"), entry.get("partition"), entry.get("replicas")
    if not isinstance(topic, str):
        raise BadPlan(f'{where}: "topic": expected a name, found {topic!r}')
    if not _is_number(partition):
        raise BadPlan(f'{where}: "partition": expected a number, found {partition!r}')
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise BadPlan(f'{where}: "replicas": expected a list of broker ids, found {replicas!r}')
    if len(set(replicas)) < len(replicas):
        raise BadPlan(f'{where}: "replicas": a broker appears twice: {replicas}')
    return TopicPartition(topic, partition), tuple(replicas)


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
