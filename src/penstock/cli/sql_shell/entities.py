"""Print each kind of answer as tables and lines; unknown kinds are printed as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from penstock.cli.sql_shell.printing import Output, Printer

Entity = Mapping[str, Any]


def print_entities(printer: Printer, entities: Sequence[Entity]) -> None:
    """Print the answers to statements; if there are several, each below its statement."""
    if printer.output is Output.json:
        printer.json(entities)
        return
    for entity in entities:
        if len(entities) > 1 and entity.get("statementText"):
            printer.title(entity["statementText"])
        show = _KINDS.get(entity.get("@type", ""))
        if show is None:
            printer.json(entity)
        else:
            show(printer, entity)
        for warning in entity.get("warnings", ()):
            printer.text(f"WARNING: {warning['message']}")


def failure_of(entity: Entity) -> str | None:
    """The error of a statement that was stored but could not be executed."""
    status = entity.get("commandStatus") or {}
    return status.get("message") if status.get("status") == "ERROR" else None


def _command(printer: Printer, entity: Entity) -> None:
    printer.text(entity["commandStatus"]["message"])


def _message(printer: Printer, entity: Entity) -> None:
    printer.text(entity["message"])


def _sources(printer: Printer, sources: Sequence[Entity]) -> None:
    rows = [
        (
            each["name"],
            each["topic"],
            each.get("keyFormat", ""),
            each.get("valueFormat", each.get("format", "")),
            _flag(each.get("isWindowed", False)),
        )
        for each in sources
    ]
    printer.table(("NAME", "TOPIC", "KEY FORMAT", "VALUE FORMAT", "WINDOWED"), rows)


def _topics(printer: Printer, entity: Entity) -> None:
    is_extended = entity["@type"] == "kafka_topics_extended"
    columns = ("TOPIC", "PARTITIONS", "REPLICAS", *(("CONSUMERS", "GROUPS") if is_extended else ()))
    rows = []
    for each in entity["topics"]:
        replicas = sorted(set(each["replicaInfo"]))
        shown = (each["name"], len(each["replicaInfo"]), ", ".join(map(str, replicas)))
        extra = (each["consumerCount"], each["consumerGroupCount"]) if is_extended else ()
        rows.append((*shown, *extra))
    printer.table(columns, rows)


def _queries(printer: Printer, entity: Entity) -> None:
    rows = [
        (
            each["id"],
            each.get("queryType", ""),
            each.get("state") or "",
            ", ".join(each.get("sinks", ())),
            ", ".join(each.get("sinkKafkaTopics", ())),
            " ".join(each["queryString"].split()),
        )
        for each in entity["queries"]
    ]
    printer.table(("QUERY", "TYPE", "STATE", "SINK", "TOPIC", "STATEMENT"), rows)


def _properties(printer: Printer, entity: Entity) -> None:
    overwritten = set(entity.get("overwrittenProperties", ()))
    rows = [
        (
            each["name"],
            each.get("scope", ""),
            each.get("level", ""),
            "yes" if each["name"] in overwritten else "",
            each.get("value"),
        )
        for each in entity["properties"]
    ]
    printer.table(("PROPERTY", "SCOPE", "LEVEL", "SET", "VALUE"), rows)


def _variables(printer: Printer, entity: Entity) -> None:
    printer.table(("VARIABLE", "VALUE"), [(each["name"], each["value"]) for each in entity["variables"]])


def _types(printer: Printer, entity: Entity) -> None:
    rows = [(name, type_of(schema)) for name, schema in sorted(entity["types"].items())]
    printer.table(("TYPE", "SCHEMA"), rows)


def _functions(printer: Printer, entity: Entity) -> None:
    functions = sorted(entity["functions"], key=lambda each: str(each["name"]))
    rows = [(each["name"], each["type"], each.get("category", "")) for each in functions]
    printer.table(("FUNCTION", "TYPE", "CATEGORY"), rows)


def _function(printer: Printer, entity: Entity) -> None:
    pairs = [("Name", entity["name"]), ("Author", entity.get("author")), ("Version", entity.get("version"))]
    _pairs(printer, [*pairs, ("Overview", entity.get("description")), ("Type", entity.get("type"))])
    for variation in entity["functions"]:
        arguments = variation["arguments"]
        shown = ", ".join(
            f"{each['name']} {each['type']}{'[]' if each.get('isVariadic') else ''}".strip()
            for each in arguments
        )
        printer.text(f"\n{entity['name']}({shown}) → {variation['returnType']}")
        if variation.get("description"):
            printer.text(f"  {variation['description']}")
        for each in arguments:
            if each.get("description"):
                printer.text(f"  {each['name']}: {each['description']}")


def _description(printer: Printer, source: Entity) -> None:
    printer.title(source["name"])
    is_extended = source.get("extended", False)
    if is_extended:
        topic = f"{source['topic']} ({source['partitions']} partitions, {source['replication']} replicas)"
        pairs: list[tuple[str, object]] = [("Type", source["type"])]
        pairs += [("Timestamp", source.get("timestamp") or "ROWTIME"), ("Key format", source["keyFormat"])]
        pairs += [("Value format", source["valueFormat"]), ("Topic", topic)]
        if source.get("windowType"):
            pairs.append(("Window", source["windowType"]))
        _pairs(printer, [*pairs, ("Statement", source.get("statement"))])
        printer.text("")
    is_table = source.get("type") == "TABLE"
    rows = [(each["name"], type_of(each["schema"]), _role(each, is_table)) for each in source["fields"]]
    printer.table(("FIELD", "TYPE", ""), rows)
    if not is_extended:
        return
    for title, queries in (("Reads from it", "readQueries"), ("Writes to it", "writeQueries")):
        if source.get(queries):
            printer.title(f"\n{title}")
            for each in source[queries]:
                statement = " ".join(each["queryString"].split())
                printer.text(f"{each['id']} ({each.get('state') or 'unknown'}): {statement}")
    if source.get("sourceConstraints"):
        printer.title("\nMade from it, and keep it from being dropped")
        printer.text("\n".join(source["sourceConstraints"]))
    told = [source[name] for name in ("statistics", "errorStats") if source.get(name)]
    if told:
        printer.text("\n" + "\n".join(told))
    _offsets(printer, source.get("queryOffsetSummaries", ()))


def _offsets(printer: Printer, summaries: Sequence[Entity]) -> None:
    for summary in summaries:
        printer.title(f"\nConsumer group {summary['groupId']}")
        rows = [
            (
                topic["kafkaTopic"],
                each["partition"],
                each["logStartOffset"],
                each["logEndOffset"],
                each["consumerOffset"],
                max(0, each["logEndOffset"] - each["consumerOffset"]),
            )
            for topic in summary["topicSummaries"]
            for each in topic["offsets"]
        ]
        printer.table(("TOPIC", "PARTITION", "START", "END", "OFFSET", "LAG"), rows)


def _query_description(printer: Printer, query: Entity) -> None:
    pairs: list[tuple[str, object]] = [("Query", query["id"]), ("Type", query.get("queryType"))]
    pairs += [("State", query.get("state")), ("Sources", ", ".join(query.get("sources", ())))]
    pairs += [("Sinks", ", ".join(query.get("sinks", ()))), ("Statement", query["statementText"])]
    if query.get("consumerGroupId"):
        pairs.append(("Consumer group", query["consumerGroupId"]))
    _pairs(printer, pairs)
    if query.get("fields"):
        printer.text("")
        rows = [(each["name"], type_of(each["schema"]), _role(each, False)) for each in query["fields"]]
        printer.table(("FIELD", "TYPE", ""), rows)
    for title, part in (("Execution plan", "executionPlan"), ("Topology", "topology")):
        if query.get(part):
            printer.title(f"\n{title}")
            printer.text(query[part].rstrip())
    if query.get("overriddenProperties"):
        printer.title("\nProperties")
        printer.table(("PROPERTY", "VALUE"), sorted(query["overriddenProperties"].items()))
    _tasks(printer, query.get("tasksMetadata", ()))
    for error in query.get("queryErrors", ()):
        at = datetime.fromtimestamp(error.get("timestamp", 0) / 1000, UTC).isoformat(
            sep=" ", timespec="seconds"
        )
        printer.text(f"\n{error.get('type', 'UNKNOWN')} error at {at}: {error['errorMessage']}")


def _tasks(printer: Printer, tasks: Sequence[Entity]) -> None:
    rows = []
    for task in tasks:
        for each in task["topicOffsets"]:
            read, end, offset = each["topicPartitionEntity"], each["endOffset"], each["committedOffset"]
            rows.append((task["taskId"], read["topic"], read["partition"], end, offset, end - offset))
    if rows:
        printer.title("\nTasks")
        printer.table(("TASK", "TOPIC", "PARTITION", "END", "OFFSET", "LAG"), rows)


def _terminated(printer: Printer, entity: Entity) -> None:
    done = "terminated" if entity.get("wasTerminated") else "not found"
    printer.text(f"Query {entity['queryId']} {done}.")


def _asserted_topic(printer: Printer, entity: Entity) -> None:
    printer.text(f"Topic {entity['topicName']} {_existence(entity)}.")


def _asserted_schema(printer: Printer, entity: Entity) -> None:
    named = [f"subject {entity['subject']}"] if entity.get("subject") is not None else []
    named += [f"id {entity['id']}"] if entity.get("id") is not None else []
    printer.text(f"Schema with {' and '.join(named)} {_existence(entity)}.")


def _created_connector(printer: Printer, entity: Entity) -> None:
    printer.text(f"Created connector {entity['info']['name']}")


def _dropped_connector(printer: Printer, entity: Entity) -> None:
    printer.text(f"Dropped connector {entity['connectorName']}")


def _connectors(printer: Printer, entity: Entity) -> None:
    names = ("name", "type", "className", "state")
    rows = [tuple(each.get(name, "") for name in names) for each in entity["connectors"]]
    printer.table(("CONNECTOR", "TYPE", "CLASS", "STATE"), rows)


def _connector_plugins(printer: Printer, entity: Entity) -> None:
    names = ("className", "type", "version")
    rows = [tuple(each.get(name, "") for name in names) for each in entity["connectorsPlugins"]]
    printer.table(("CLASS", "TYPE", "VERSION"), rows)


def _connector(printer: Printer, entity: Entity) -> None:
    status = entity["status"]
    state = status["connector"]
    pairs: list[tuple[str, object]] = [("Name", status["name"]), ("Class", entity["connectorClass"])]
    pairs += [("Type", status.get("type")), ("State", state["state"]), ("Worker", state.get("worker_id"))]
    _pairs(printer, [*pairs, ("Trace", state.get("trace"))])
    if status["tasks"]:
        printer.title("\nTasks")
        rows = [(each["id"], each["state"], each.get("trace", "")) for each in status["tasks"]]
        printer.table(("TASK", "STATE", "TRACE"), rows)
    if entity["sources"]:
        printer.title("\nStreams and tables")
        rows = [(each["name"], each["topic"], each["type"]) for each in entity["sources"]]
        printer.table(("NAME", "TOPIC", "TYPE"), rows)
    if entity["topics"]:
        printer.title("\nTopics")
        printer.text("\n".join(entity["topics"]))


def _existence(entity: Entity) -> str:
    return "exists" if entity["exists"] else "does not exist"


def _several(name: str, show: Callable[[Printer, Entity], None]) -> Callable[[Printer, Entity], None]:
    def print_all(printer: Printer, entity: Entity) -> None:
        for number, each in enumerate(entity[name]):
            if number:
                printer.text("")
            show(printer, each)

    return print_all


def _pairs(printer: Printer, pairs: Sequence[tuple[str, object]]) -> None:
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        if value not in (None, ""):
            printer.text(f"{name:{width}}  {value}")


def _role(field: Entity, is_table: bool) -> str:
    match field.get("type"):
        case "KEY":
            return "primary key" if is_table else "key"
        case "HEADER":
            return f"header {field['headerKey']}" if field.get("headerKey") else "headers"
    return ""


def type_of(schema: Entity) -> str:
    """The text of a type."""
    match schema["type"]:
        case "ARRAY":
            return f"ARRAY<{type_of(schema['memberSchema'])}>"
        case "MAP":
            return f"MAP<STRING, {type_of(schema['memberSchema'])}>"
        case "STRUCT":
            fields = ", ".join(f"{each['name']} {type_of(each['schema'])}" for each in schema["fields"])
            return f"STRUCT<{fields}>"
        case "DECIMAL":
            parameters = schema.get("parameters") or {}
            return f"DECIMAL({parameters.get('precision')}, {parameters.get('scale')})"
    return str(schema["type"])


def _flag(value: object) -> str:
    return "yes" if value else "no"


_KINDS: Final[dict[str, Callable[[Printer, Entity], None]]] = {
    "currentStatus": _command,
    "warning_entity": _message,
    "terminate_query": _terminated,
    "streams": lambda printer, entity: _sources(printer, entity["streams"]),
    "tables": lambda printer, entity: _sources(printer, entity["tables"]),
    "kafka_topics": _topics,
    "kafka_topics_extended": _topics,
    "queries": _queries,
    "properties": _properties,
    "variables": _variables,
    "type_list": _types,
    "function_names": _functions,
    "describe_function": _function,
    "sourceDescription": lambda printer, entity: _description(printer, entity["sourceDescription"]),
    "source_descriptions": _several("sourceDescriptions", _description),
    "queryDescription": lambda printer, entity: _query_description(printer, entity["queryDescription"]),
    "query_descriptions": _several("queryDescriptions", _query_description),
    "connector_info": _created_connector,
    "drop_connector": _dropped_connector,
    "connector_list": _connectors,
    "connector_plugins_list": _connector_plugins,
    "connector_description": _connector,
    "assert_topic": _asserted_topic,
    "assert_schema": _asserted_schema,
}
