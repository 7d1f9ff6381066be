"""Cases of the engine's answers; an engine of its own runs each of them over real topics."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import pytest
from answer_cases import FILES, AnswerCase, Asked, answer_cases
from engine_server import Server, eventually, new_topics
from record_cases import json_text, to_json

from penstock.cli.sql_shell.entities import print_entities
from penstock.cli.sql_shell.printing import Output, Printer
from penstock.cli.sql_shell.script import statements_of
from penstock.sql.engine import EngineError
from penstock.sql.engine.ground import entities as e
from penstock.sql.engine.ground.requests import steps_of
from penstock.sql.engine.reading.results import QueryResult, Tombstone
from penstock.testing import Cluster
from small_registry import SmallRegistry

# Statements that may be repeated until they give the expected answer.
LOOKING = ("SELECT", "SHOW", "LIST", "DESCRIBE", "EXPLAIN", "PRINT", "ASSERT")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster for these cases only, because other tests use topics with the same names."""
    with Cluster() as found:
        yield found


@pytest.fixture(scope="module")
def registry() -> Iterator[SmallRegistry]:
    with SmallRegistry().running() as running:
        yield running


@pytest.mark.parametrize("case", answer_cases(), ids=str)
def test_the_engine_answers_what_the_case_says(
    case: AnswerCase, cluster: Cluster, registry: SmallRegistry
) -> None:
    with new_topics(cluster.bootstrap_servers) as address:
        server = Server(
            address,
            registry_url=registry.url,
            ksql_script_dir=str(FILES),
            ksql_extension_dir=str(FILES),
        )
        try:
            session = Session(server)
            for asked in case.asked:
                assert session.answer(asked) == Expected(asked), asked.sql
        finally:
            server.close()


class Expected:
    """An object that equals every answer that the case allows; its repr is the case's text."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._asked.is_answered_by(other)

    def __repr__(self) -> str:
        return f"\n{self._asked.answer}\n"


class Session:
    """A session of a case: its settings apply to all statements that follow."""

    def __init__(self, server: Server) -> None:
        self._engine = server.engine
        self._properties: dict[str, str] = {}
        self._variables: dict[str, str] = {}

    def answer(self, asked: Asked) -> str:
        *before, last = [each.text for each in statements_of(asked.sql)]
        for statement in before:
            self._told(statement)
        if _word(last) in LOOKING and "EMIT" not in last.upper():
            return eventually(lambda: self._answered(last), asked.is_answered_by)
        return self._answered(last) if asked.answer is not None else self._told(last)

    def _answered(self, statement: str) -> str:
        try:
            return self._told(statement)
        except EngineError as error:
            return "\n".join(f"! {line}" for line in error.message.split("\n"))

    def _told(self, statement: str) -> str:
        held = (self._properties, self._variables)
        match _word(statement):
            case "SELECT":
                return _rows(self._engine.query(statement, *held))
            case "PRINT":
                return "\n".join(line for (line,) in self._engine.print_topic(statement, *held).rows())
        entities = self._engine.execute(statement, *held)
        list(steps_of(statement, *held, FILES))  # its settings apply to the next statement
        with redirect_stdout(io.StringIO()) as shown:
            print_entities(Printer(Output.table), [_json(each) for each in entities])
        return "\n".join(line.rstrip() for line in shown.getvalue().rstrip("\n").split("\n"))


def _json(entity: e.Entity) -> dict[str, Any]:
    made = e.to_json(entity)
    assert isinstance(made, dict)
    return made


def _word(statement: str) -> str:
    return statement.split(None, 1)[0].upper()


def _rows(result: QueryResult) -> str:
    rows = [_row(result, row) for row in result.rows()]
    if not result.is_push and not result.limit_reached:
        rows.sort()
    return "\n".join([" | ".join(each.name for each in result.columns), *rows])


def _row(result: QueryResult, row: tuple[Any, ...]) -> str:
    cells = [json_text(to_json(value, each.type)) for value, each in zip(row, result.columns, strict=True)]
    return ("deleted: " if isinstance(row, Tombstone) else "") + " | ".join(cells)
