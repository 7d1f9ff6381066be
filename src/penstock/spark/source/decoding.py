"""The options for the columns of the source and for the formats of keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from penstock.arrow.decoded import Format
from penstock.arrow.formats import FORMAT_NAMES, REGISTERED, make_fitting
from penstock.arrow.layout import DAMAGED_BATCHES, DECODE_ERRORS, DamagedBatches, DecodeErrors, Layout
from penstock.arrow.schema_choice import SchemaChoice, refuse_idle_registry
from penstock.client.settings import ConfigError, boolean, one_of, text, whole_number
from penstock.registry.client.config import RegistryConfig
from penstock.spark.options import Options
from penstock.spark.source.subscription import Assigned, Subscription, Topics

_POLICIES: Mapping[str, DecodeErrors] = {choice: choice for choice in get_args(DecodeErrors)}
_DAMAGED: Mapping[str, DamagedBatches] = {choice: choice for choice in get_args(DamagedBatches)}


def take_layout(options: Options, subscription: Subscription, planned: StructType | None) -> Layout:
    """Take ``keyFormat``, ``keySchema``, the same for values, and the other options of the columns.

    It also takes the properties of a schema registry. ``planned`` has the columns that Spark has already
    fixed. Raises ConfigError, and errors of the registry's client if it requests a schema.
    """
    policy = _POLICIES[options.take("decodeErrors", one_of(*DECODE_ERRORS), "fail")]
    registry = options.take_properties(RegistryConfig.names())
    key = _take_format(options, "key", subscription, registry, planned)
    value = _take_format(options, "value", subscription, registry, planned)
    refuse_idle_registry(registry, (key.name, value.name))
    return Layout(
        key=key,
        value=value,
        decode_errors=policy,
        include_headers=options.take("includeHeaders", boolean, False),
        damaged_batches=_DAMAGED[options.take("damagedBatches", one_of(*DAMAGED_BATCHES), "fail")],
        timestamp_unit="us",
    )


def take_dead_letter_topic(options: Options, subscription: Subscription, layout: Layout) -> str | None:
    """Return the topic for undecodable records. Raises ConfigError.

    The query must not read that topic itself, or it would find the same records undecodable again and again.
    """
    topic = options.take("deadLetterTopic", text, None)
    if (topic is not None) != (layout.decode_errors == "dead-letter"):
        raise ConfigError("options 'decodeErrors' dead-letter and 'deadLetterTopic' go together: found one")
    if topic is not None and subscription.includes(topic):
        raise ConfigError(
            f"option 'deadLetterTopic' is {topic!r}: expected a topic that the query does not read itself, "
            f"found {subscription}"
        )
    return topic


def _take_format(
    options: Options,
    part: str,
    subscription: Subscription,
    registry: Mapping[str, str],
    planned: StructType | None,
) -> Format:
    name = options.take(f"{part}Format", one_of(*FORMAT_NAMES), "binary")
    choice = SchemaChoice(
        schema=options.take(f"{part}Schema", text, None),
        subject=options.take(f"{part}SchemaSubject", text, None),
        version=options.take(f"{part}SchemaVersion", whole_number(1), 0) or None,
        message=options.take(f"{part}SchemaMessage", text, None),
    )
    if name in REGISTERED:
        choice = choice.completed(part, _topics(subscription), registry or None)

    def fits(kind: pa.DataType) -> bool:
        if planned is None or part not in planned.names:
            return True
        made = from_arrow_type(kind, prefer_timestamp_ntz=True)
        return bool(made == planned[part].dataType)

    return make_fitting(name, choice, fits)


def _topics(subscription: Subscription) -> list[str]:
    """The topics that the subscription names."""
    match subscription:
        case Topics(names):
            return list(names)
        case Assigned(wanted):
            return sorted({tp.topic for tp in wanted})
    return []
