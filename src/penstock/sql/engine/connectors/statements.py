"""Execute CREATE, DROP, SHOW and DESCRIBE of connectors, with ksqlDB's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlglot import exp

from penstock.sql.engine.connectors.connect_cluster import ConnectCluster
from penstock.sql.engine.ground.entities import (
    ConnectorDescription,
    ConnectorList,
    ConnectorPluginInfo,
    ConnectorPluginsList,
    CreateConnectorEntity,
    DropConnectorEntity,
    Entity,
    SimpleConnectorInfo,
    SourceDescription,
    WarningEntity,
)
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.properties import Values
from penstock.sql.language import statements as s
from penstock.sql.language.statements import Listed

_CLASS: Final = "connector.class"
_RUNNING: Final = "RUNNING"
_JDBC_SOURCE: Final = "io.confluent.connect.jdbc.JdbcSourceConnector"
_TRANSFORMS: Final = "org.apache.kafka.connect.transforms."
_TYPES: Final = {Listed.SOURCE_CONNECTORS: "source", Listed.SINK_CONNECTORS: "sink"}


class Connectors:
    """The connectors of the Connect cluster that the properties name. Methods raise EngineError."""

    def __init__(self, values: Values) -> None:
        self._connect = ConnectCluster(values)

    def check(self, create: s.CreateConnector) -> None:
        """Check that a connector can be created: its name is free, and Connect accepts its configuration."""
        if not create.if_not_exists and self._exists(create.name):
            raise EngineError(f"Connector {create.name} already exists", ErrorCode.CONFLICT)
        problems = self._problems(_config(create))
        if problems:
            raise EngineError("Validation error: " + "\n".join(problems))

    def create(self, create: s.CreateConnector, text: str) -> Entity:
        if create.if_not_exists and self._exists(create.name):
            return WarningEntity(statement_text=text, message=f"Connector {create.name} already exists")
        body = {"name": create.name, "config": _config(create)}
        info = self._connect.ask("Failed to create connector", "POST", "connectors", body=body)
        return CreateConnectorEntity(statement_text=text, info=info)

    def drop(self, drop: s.DropConnector, text: str) -> Entity:
        try:
            self._connect.ask("Failed to drop connector", "DELETE", "connectors", drop.name)
        except EngineError as error:
            if not (drop.if_exists and error.code is ErrorCode.NOT_FOUND):
                raise
            return WarningEntity(statement_text=text, message=f"Connector '{drop.name}' does not exist.")
        return DropConnectorEntity(statement_text=text, connector_name=drop.name)

    def show(self, what: Listed, text: str) -> Entity:
        if what is Listed.CONNECTOR_PLUGINS:
            found = self._connect.ask("Failed to list connector plugins", "GET", "connector-plugins")
            plugins = (ConnectorPluginInfo(each["class"], each["type"], each["version"]) for each in found)
            return ConnectorPluginsList(statement_text=text, connectors_plugins=tuple(plugins))
        connectors: list[SimpleConnectorInfo] = []
        warnings: list[str] = []
        for name in self._connect.ask("Failed to list connectors", "GET", "connectors"):
            try:
                described = self._described(name)
            except EngineError as error:
                warnings.append(f"Could not describe connector {name}: {error.message}")
                described = SimpleConnectorInfo(name, "unknown")
            if what is Listed.CONNECTORS or described.type == _TYPES[what]:
                connectors.append(described)
        return ConnectorList(statement_text=text, connectors=tuple(connectors), warnings=tuple(warnings))

    def describe(
        self, name: str, text: str, sources_of: Callable[[Sequence[str]], Iterable[SourceDescription]]
    ) -> Entity:
        """Describe a connector. ``sources_of`` describes the streams and tables on topics."""
        status = self._status(name)
        info = self._info(name)
        topics: Sequence[str] = ()
        warnings: tuple[str, ...] = ()
        try:
            found = self._connect.ask("", "GET", "connectors", name, "topics")
            topics = found[name].get("topics", ())
        except EngineError as error:
            warnings = (f"Could not list related topics due to error{error.message}",)
        return ConnectorDescription(
            statement_text=text,
            connector_class=info["config"].get(_CLASS, ""),
            status=status,
            sources=tuple(sources_of(topics)),
            topics=tuple(topics),
            warnings=warnings,
        )

    def _exists(self, name: str) -> bool:
        found = self._connect.ask("Failed to check for existing connector", "GET", "connectors")
        return name.lower() in map(str.lower, found)

    def _problems(self, config: Mapping[str, str | None]) -> list[str]:
        kind = config.get(_CLASS)
        if kind is None:
            return [f"Connector config {config} contains no connector type"]
        if not kind.strip():
            return ["Connector type cannot be empty"]
        path = "connector-plugins", kind, "config", "validate"
        refused = ErrorCode.BAD_STATEMENT
        found = self._connect.ask("Validation error", "PUT", *path, body=config, code=refused)
        values = (each["value"] for each in found["configs"])
        return [f"{each['name']} - {'. '.join(each['errors'])}" for each in values if each["errors"]]

    def _info(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._connect.ask(
            "Failed to describe connector", "GET", "connectors", name
        )
        return found

    def _status(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._connect.ask(
            "Failed to query connector status", "GET", "connectors", name, "status"
        )
        return found

    def _described(self, name: str) -> SimpleConnectorInfo:
        info = self._info(name)
        state = _state(self._status(name))
        return SimpleConnectorInfo(name, info["type"], info["config"].get(_CLASS), state)


def _config(create: s.CreateConnector) -> dict[str, str | None]:
    """The configuration of a connector, as ksqlDB makes it of the statement's properties."""
    config = {each.name: _text(each.value) for each in create.properties}
    if config.get(_CLASS) == _JDBC_SOURCE:
        config = _with_key(config)
    return {**config, "name": create.name}


def _with_key(config: dict[str, str | None]) -> dict[str, str | None]:
    """Let ``key`` of a JDBC source name the column that becomes the record's key, as ksqlDB does."""
    config = {"tasks.max": "1", **config}
    key = config.pop("key", None)
    if key is None:
        return config
    before = config.get("transforms")
    made = "ksqlCreateKey,ksqlExtractString"
    return config | {
        "transforms": f"{before},{made}" if before else made,
        "transforms.ksqlCreateKey.type": f"{_TRANSFORMS}ValueToKey",
        "transforms.ksqlCreateKey.fields": key,
        "transforms.ksqlExtractString.type": f"{_TRANSFORMS}ExtractField$Key",
        "transforms.ksqlExtractString.field": key,
    }


def _text(value: exp.Expr) -> str | None:
    match value:
        case exp.Null():
            return None
        case exp.Neg():
            return f"-{_text(value.this)}"
        case exp.Boolean():
            return str(value.this).lower()
    return str(value.this)


def _state(status: Mapping[str, Any]) -> str:
    state: str = status["connector"]["state"]
    if state != _RUNNING:
        return state
    tasks = status["tasks"]
    running = sum(each["state"] == _RUNNING for each in tasks)
    return f"{'WARNING' if tasks and not running else _RUNNING} ({running}/{len(tasks)} tasks RUNNING)"
