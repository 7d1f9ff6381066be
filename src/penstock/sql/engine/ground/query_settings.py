"""The properties that apply to a statement, and those that the plan of its query is built with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.properties import OFFSET_RESET, Values
from penstock.sql.engine.ground.service_topics import log_topic
from penstock.sql.engine.ground.state import State
from penstock.sql.evaluation import builtin
from penstock.sql.planning import CACHE
from penstock.sql.planning.processing_log import FAIL_ON_NO_TIME, FAIL_ON_UNREADABLE, LOG_ROWS, LOG_TOPIC

_OF_PLANS: Final = (
    OFFSET_RESET,
    CACHE,
    FAIL_ON_UNREADABLE,
    FAIL_ON_NO_TIME,
    LOG_ROWS,
    *builtin.LIMITS,
)
"""The properties of a statement that its query's plan is built with."""


def values_of(config: EngineConfig, state: State, properties: Mapping[str, str]) -> Values:
    """The properties that apply to a statement which was given with ``properties``."""
    return Values((config.server_properties, state.system, properties))


def plan_settings(config: EngineConfig, values: Values) -> dict[str, str]:
    """The properties that the plan of a query is built with."""
    own = {name: values.get(name) for name in _OF_PLANS}
    own[LOG_TOPIC] = log_topic(values, config.service_id)
    return {**values.registry(), **{name: value for name, value in own.items() if value is not None}}
