"""The checks that only a distributed worker makes: exactly-once sources, and the groups of sinks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, cast

from penstock.connect.configs.clients import ClientType
from penstock.connect.configs.connector import NAME
from penstock.connect.configs.source import EXACTLY_ONCE_SUPPORT, TRANSACTION_BOUNDARY
from penstock.connect.connector.connector import Connector
from penstock.connect.connector.source import SourceConnector
from penstock.connect.definitions.config_def import ConfigValue
from penstock.connect.definitions.config_types import java_text

log = logging.getLogger(__name__)

GROUP_ID = "group.id"
CONSUMER_GROUP = ClientType.CONSUMER.value + GROUP_ID
NO_SUPPORT_KNOWN = (
    "The connector does not implement the API required for preflight validation of exactly-once source "
    "support. Please consult the documentation for the connector to determine whether it supports "
    "exactly-once semantics, and then consider reconfiguring the connector to use the value "
    '"requested" for this property (which will disable this preflight check and allow the connector to be '
    "created)."
)
NO_SUPPORT = "The connector does not support exactly-once semantics with the provided configuration."
NO_BOUNDARIES = (
    "The connector does not support connector-defined transaction boundaries with the given "
    "configuration. Please reconfigure it to use a different transaction boundary definition."
)

Values = MutableMapping[str, ConfigValue]


def check_distributed(
    connector: Connector,
    properties: Mapping[str, str | None],
    values: Values,
    worker: Mapping[str, str],
) -> None:
    """Add the errors that only a distributed worker finds to the values of a configuration."""
    if isinstance(connector, SourceConnector):
        check_exactly_once(connector, properties, values[EXACTLY_ONCE_SUPPORT], worker)
        check_boundary(connector, properties, values[TRANSACTION_BOUNDARY])
    else:
        check_group(properties, values, worker[GROUP_ID])


def check_exactly_once(
    connector: SourceConnector,
    properties: Mapping[str, str | None],
    value: ConfigValue,
    worker: Mapping[str, str],
) -> None:
    if value.errors or not is_chosen(value, "required"):
        return
    if worker.get("exactly.once.source.support", "").lower() != "enabled":
        value.errors.append("This worker does not have exactly-once source support enabled.")
    supported = asked(connector.exactly_once_support, properties, value)
    if supported is None:
        value.errors.append(NO_SUPPORT_KNOWN)
    elif supported is False:
        value.errors.append(NO_SUPPORT)


def check_boundary(
    connector: SourceConnector, properties: Mapping[str, str | None], value: ConfigValue
) -> None:
    if value.errors or not is_chosen(value, "connector"):
        return
    if asked(connector.can_define_transaction_boundaries, properties, value) is False:
        value.errors.append(NO_BOUNDARIES)


def is_chosen(value: ConfigValue, choice: str) -> bool:
    return isinstance(value.value, str) and value.value.strip().lower() == choice


FAILED = object()
"""In place of an answer: the connector failed, which is an error of the value."""


def asked(
    question: Callable[[Mapping[str, str]], bool | None],
    properties: Mapping[str, str | None],
    value: ConfigValue,
) -> Any:
    """Ask a connector about a configuration."""
    try:
        return question(cast(Mapping[str, str], properties))
    except Exception as error:
        log.exception("A connector failed while its configuration was validated key=%s", value.name)
        reason = f": {error}" if str(error).strip() else "; please see the worker logs for more details."
        value.errors.append(f"An unexpected error occurred during validation{reason.rstrip()}")
        return FAILED


def check_group(properties: Mapping[str, str | None], values: Values, worker_group: str) -> None:
    if CONSUMER_GROUP in properties:
        group = properties[CONSUMER_GROUP]
        value = values.setdefault(CONSUMER_GROUP, ConfigValue(CONSUMER_GROUP, group))
        shown = f"Consumer group {group}"
    else:
        value = values[NAME]
        group = f"connect-{java_text(value.value)}"
        shown = f"Consumer group for sink connector named {java_text(value.value)}"
    if group == worker_group:
        value.errors.append(f"{shown} conflicts with Connect worker group {worker_group}")
