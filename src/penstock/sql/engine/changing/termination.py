"""TERMINATE CLUSTER: end a service. Of its topics, only those that the request doesn't name remain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from penstock.sql.engine.changing.distribution import Distributor
from penstock.sql.engine.ground.entities import CommandStatus, CommandStatusEntity, Entity
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.requests import steps_of
from penstock.sql.engine.ground.state import State
from penstock.sql.language.keywords import quoted

_STATEMENT = "TERMINATE CLUSTER;"


def terminate(distributor: Distributor, topics: Sequence[str]) -> Entity:
    """End all queries, drop all sources, and delete the command topic.

    A topic that queries write to is deleted as well if a name or a regular expression in ``topics`` matches
    it. Raises EngineError, ClientError.
    """
    wanted = _patterns(topics)
    warnings: list[str] = []
    for text in _statements(distributor.state, wanted):
        for step in steps_of(text, {}, {}, None):
            warnings += distributor.distribute(step).warnings
    sequence, more = distributor.terminate()
    return CommandStatusEntity(
        statement_text=_STATEMENT,
        command_id="cluster/TerminateCluster/terminate",
        command_status=CommandStatus("SUCCESS", "The service has ended."),
        command_sequence_number=sequence,
        warnings=(*warnings, *more),
    )


def _patterns(topics: Iterable[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(each) for each in topics]
    except re.error as error:
        raise EngineError(
            f"Invalid pattern: found {error.pattern!r}, expected a name or a regular expression: {error}",
            ErrorCode.BAD_REQUEST,
        ) from None


def _statements(state: State, wanted: list[re.Pattern[str]]) -> Iterable[str]:
    """Yield the statements that end everything. The latest sources go first: they depend on earlier ones."""
    if state.queries:
        yield "TERMINATE ALL;"
    for source in reversed(list(state.catalog.sources.values())):
        is_result = source.name in state.made_from
        is_wanted = is_result and any(each.fullmatch(source.topic) for each in wanted)
        yield f"DROP {source.kind.value} {quoted(source.name)}{' DELETE TOPIC' if is_wanted else ''};"
