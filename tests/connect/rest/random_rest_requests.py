"""Random requests to a worker's REST API that leave no connectors behind, and the meaning of answers."""

import random
from typing import Any, NamedTuple

from rest_serving import ask

METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS")
SEGMENTS = (
    *(
        "connectors",
        "connector-plugins",
        "admin",
        "loggers",
        "health",
        "x",
        "a%20b",
        "config",
        "status",
        "tasks",
    ),
    *("0", "-1", "topics", "reset", "restart", "pause", "stop", "offsets", "fence", "validate", "nope"),
)
VALIDATE, PLUGIN = "/connector-plugins/{plugin}/config/validate", "/connector-plugins/{plugin}/config"
PATHS = (
    *("/", "/health", "/connectors", "/connectors/x", "/connectors/x/config", "/connectors/x/status"),
    *("/connectors/x/topics", "/connectors/x/topics/reset", "/connectors/x/restart", "/connectors/x/stop"),
    *("/connectors/x/pause", "/connectors/x/resume", "/connectors/x/tasks", "/connectors/x/tasks/0/status"),
    *("/connectors/x/tasks/0/restart", "/connectors/x/offsets", "/connectors/x/fence"),
    *("/admin/loggers/zz.a", "/admin/loggers/zz.b", *[VALIDATE] * 8, *[PLUGIN] * 3),
)
QUERIES = (
    *("", "", "?expand=status", "?expand=info", "?forward=true", "?forward=false", "?includeTasks=true"),
    *("?onlyFailed=true&includeTasks=1", "?version=4.3.1", "?version=1", "?version=latest", "?version=[1,2)"),
    *("?scope=cluster", "?connectorsOnly=false", "?a=%41&b"),
)
CONNECTORS = ("FileStreamSource", "FileStreamSink", "org.apache.kafka.connect.file.FileStreamSinkConnector")
PLUGINS = (
    *("FileStreamSourceConnector", "JsonConverter", "StringConverter", "SimpleHeaderConverter", "nope"),
    *("org.apache.kafka.connect.transforms.InsertField$Value", "Filter", "RegexRouter", "HasHeaderKey"),
    *("org.apache.kafka.connect.storage.StringConverter", "ByteArrayConverter", *CONNECTORS),
)
# Without connector.plugin.version: of wrong versions, some are a NullPointerException in Kafka
KEYS = (
    *("name", "connector.class", "topic", "topics", "topics.regex", "tasks.max", "file", "batch.size"),
    *("key.converter", "value.converter", "header.converter", "value.converter.schemas.enable"),
    *("errors.tolerance", "errors.retry.timeout", "errors.deadletterqueue.topic.name", "transforms"),
    *("predicates", "transforms.a.type", "transforms.a.predicate"),
    *("producer.override.client.id", "consumer.override.group.id", "config.action.reload"),
    *("tasks.max.enforce", "exactly.once.support", "transaction.boundary", "topic.creation.groups"),
    *("offsets", "config", "initial_state", "level"),
)
VALUES = (
    *("1", "true", "x", "", "null", "1.5", "{}", "[]", '"x"', '"4.3.1"', '"t"', '"a,b"', '"[4,5)"', '"-1"'),
    *('"all"', '"JsonConverter"', '"org.apache.kafka.connect.json.JsonConverter"', '"FileStreamSource"'),
)
BODIES = ("", "", "[]", "{", "1", '"x"', "[{}]", '{"offsets": []}', '{"offsets": 1}')
BODY_TYPES = ("text/plain", "application/json; a=b", "application/xml")
ACCEPTED = ("text/html", "application/json", "*/*", "application/*;q=0.5", "text/*, */*;q=0.1")


class RandomRequest(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: str


class RandomRequests:
    """The requests of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next(self) -> RandomRequest:
        choice, chance = self._random.choice, self._random.random
        path, method = choice(PATHS), choice(METHODS)
        if chance() < 0.1:
            path = "/" + "/".join(choice(SEGMENTS) for _ in range(self._random.randint(1, 4)))
        if path in (VALIDATE, PLUGIN) and chance() < 0.9:
            method = "PUT" if path == VALIDATE else "GET"
        body = self._body(path) if method in ("PUT", "POST", "PATCH") or chance() < 0.1 else ""
        headers = {"Content-Type": "application/json"} if body else {}
        if chance() < 0.1:
            headers["Content-Type"] = choice(BODY_TYPES)
        if chance() < 0.1:
            headers["Accept"] = choice(ACCEPTED)
        plugins = ("FileStreamSource", "FileStreamSink", "Source", "Sink") if path == VALIDATE else PLUGINS
        return RandomRequest(method, path.format(plugin=choice(plugins)) + choice(QUERIES), headers, body)

    def _body(self, path: str) -> str:
        if path == VALIDATE and self._random.random() < 0.9:
            return self._connector()
        if self._random.random() < 0.4:
            return self._random.choice(BODIES)
        if self._random.random() < 0.5:
            return self._object({})
        name = self._random.choice(["x", "", " y "])
        return f'{{"name": "{name}", "config": {self._object({})}}}'

    def _connector(self) -> str:
        name = self._random.choice(CONNECTORS)
        topics = "topics" if "Sink" in name else "topic"
        return self._object({"name": '"n"', "connector.class": f'"{name}"', topics: '"t"'})

    def _object(self, content: dict[str, str]) -> str:
        keys = self._random.sample(KEYS, self._random.randint(0, 4))
        content = {**content, **{key: self._random.choice(VALUES) for key in keys}}
        return "{" + ", ".join(f'"{key}": {value}' for key, value in content.items()) + "}"


def meaning(url: str, request: RandomRequest) -> tuple[int, Any]:
    """The status of a worker's answer, and what of its body does not depend on the worker.

    Messages about bodies that are no configurations show parts of Java, and the documentation is our own.
    """
    answer = ask(url + request.path, request.method, request.body.encode() or None, request.headers)
    found = answer.body
    match found:
        case {"message": message, "error_code": code}:
            without_class = message.rpartition("BadRequestException: ")[2]
            return answer.status, without_class if code != 500 or "Connector config" in message else None
        case {"configs": configs}:
            return answer.status, {**found, "configs": [_config(each) for each in configs]}
        case [{"documentation": _}, *_]:
            return answer.status, [_without(each, "documentation") for each in found]
        case [{"class": _}, *_] | {"commit": _}:
            return answer.status, None
        case {"last_modified": _}:
            return answer.status, found["level"]
    return answer.status, found


def _config(config: dict[str, Any]) -> dict[str, Any]:
    definition, value = config["definition"], config["value"]
    if value is not None:
        value = _without(value, "recommended_values")  # Penstock has more plugins to recommend
        value["errors"] = [error.partition("Invalid regex: ")[0] for error in value["errors"]]
    return {
        "definition": None if definition is None else _without(definition, "documentation"),
        "value": value,
    }


def _without(found: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != name}
