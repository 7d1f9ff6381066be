"""Writes the generated parts of the docs from the code: `make docs`. A test checks that they are current.

A generated part stands between `<!-- NAME: generated -->` and `<!-- NAME: end -->`.
"""

import asyncio
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prometheus_client.metrics_core import Metric
from typer.main import get_command

from penstock.broker import api_table
from penstock.broker.metrics.server import BrokerCollector
from penstock.broker.node import Broker
from penstock.cli.main import COMMANDS, build_app
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.configs.definition import ConfigKey, UpdateMode
from penstock.metadata.configs.reference import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from penstock.monitoring.process import registry_of
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.registry.api.metrics import RegistryMetrics
from penstock.registry.subjects import Registry
from penstock.spark.observing.query_metrics import QueryMetrics
from penstock.sql.engine.showing.figures import Figures
from penstock.sql.functions import BUILT_IN, FunctionKind
from penstock.sql.server.metrics import SqlMetrics
from penstock.views.metrics import ViewMetrics
from penstock.web.metrics import RequestMetrics

DOCS = Path(__file__).parent
CASES_OF_A_FUNCTION_MIN = 3
sys.path.append(str(DOCS.parent / "tests" / "sql"))

from expression_cases import expression_cases  # noqa: E402  # the cases are the tests' own
from record_cases import record_cases  # noqa: E402
from record_report import language_table  # noqa: E402


def main() -> None:
    """Rewrite the documents that are out of date, and name them."""
    for path, text in generated_documents():
        if path.read_text() != text:
            path.write_text(text)
            print(f"rewritten: {path.name}")


def generated_documents() -> Iterator[tuple[Path, str]]:
    """Each document with generated parts, as it should be."""
    parts: Mapping[str, Mapping[str, Callable[[], str]]] = {
        "compatibility.md": {"release": release, "apis": apis},
        "security.md": {"permissions": permissions},
        "configuration.md": {
            "broker configs": lambda: configs(BROKER_KEYS),
            "topic configs": lambda: configs(TOPIC_KEYS),
            "group configs": lambda: configs(GROUP_KEYS),
        },
        "cli.md": {"shared options": shared_options, "commands": commands},
        "metrics.md": {
            "metrics": metrics,
            "query metrics": query_metrics,
            "process metrics": process_metrics,
            "http metrics": lambda: metrics_table(RequestMetrics().collect()),
            "sql metrics": sql_metrics,
            "registry metrics": registry_metrics,
            "view metrics": view_metrics,
        },
        "sql.md": {"language": language_table, "functions": sql_functions},
    }
    for name, sections in parts.items():
        text = (DOCS / name).read_text()
        for section, render in sections.items():
            text = replaced(text, section, render())
        yield DOCS / name, text


def sql_functions() -> str:
    """Each function, and how many cases call it, in whole queries or alone; the suite runs them all."""
    texts = [case.sql.upper() for case in record_cases() if case.refused is None]
    texts += [case.expression.upper() for case in expression_cases()]
    kinds: dict[FunctionKind, list[str]] = {kind: [] for kind in FunctionKind}
    open_count = 0
    for name, function in sorted(BUILT_IN.items()):
        calls = re.compile(rf"\b{name}\(")
        count = sum(calls.search(text) is not None for text in texts)
        open_count += count < CASES_OF_A_FUNCTION_MIN
        shown = f"passing, {count}" if count >= CASES_OF_A_FUNCTION_MIN else f"open, {count}"
        kinds[function.kind].append(f"| `{name}` | {shown} | {function.description} |")
    lines = [
        f"{len(BUILT_IN) - open_count} of {len(BUILT_IN)} are called by at least {CASES_OF_A_FUNCTION_MIN} "
        "cases that pass; these are all functions that ksqlDB's reference lists."
    ]
    for kind, rows in kinds.items():
        lines += ["", f"| {kind.value} function | cases | what it does |", "| --- | --- | --- |", *rows]
    return "\n".join(lines)


def replaced(text: str, section: str, content: str) -> str:
    """*text* with the content of one generated part exchanged."""
    begin, end = f"<!-- {section}: generated -->", f"<!-- {section}: end -->"
    head, found_begin, rest = text.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"no part {section!r}: expected {begin} … {end}")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def release() -> str:
    """The release whose formats and behaviour Penstock follows."""
    return (
        f"The target release is **Apache Kafka {api_keys.TARGET_RELEASE}**, "
        f"metadata.version {api_keys.TARGET_METADATA_VERSION} (level {api_keys.TARGET_METADATA_LEVEL})."
    )


def apis() -> str:
    """Every API of the target release, with the versions served here and there."""
    lines = ["| key | API | served | target release | listeners |", "| ---: | --- | --- | --- | --- |"]
    for key in ApiKey:
        api = api_table.apis().get(key)
        served = "-" if api is None else "refused" if api.is_refused else shown_range(api.versions)
        known = shown_range(api_keys.api_range(key))
        listeners = ", ".join(api_keys.api(key).listeners)
        lines.append(f"| {key.value} | {key.name} | {served} | {known} | {listeners} |")
    return "\n".join(lines)


def permissions() -> str:
    """The permissions that each API checks."""
    lines = ["| API | operation | resource | when |", "| --- | --- | --- | --- |"]
    for key, api in api_table.apis().items():
        for needed in api.permissions:
            kind = needed.resource_type.title
            lines.append(f"| {key.name} | {needed.operation.name} | {kind} | {needed.condition} |")
    return "\n".join(lines)


def shown_range(versions: tuple[int, int]) -> str:
    """`3 to 13`, or one number."""
    lowest, highest = versions
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def configs(keys: Mapping[str, ConfigKey]) -> str:
    """One table of configurations."""
    lines = ["| name | type | default | change while running | |", "| --- | --- | --- | --- | --- |"]
    for key in sorted(keys.values(), key=lambda key: key.name):
        if key.internal:
            continue
        default = (
            "required" if key.required else "null" if key.default is None else f"`{key.default or '(empty)'}`"
        )
        kind = key.type.name.lower() + (f" {key.expected}" if key.expected else "")
        dynamic = "-" if key.update_mode is UpdateMode.READ_ONLY else key.update_mode.value
        lines.append(f"| `{key.name}` | {kind} | {default} | {dynamic} | {key.doc} |".replace("||", "\\|"))
    return "\n".join(lines)


def shared_options() -> str:
    """The options that every client command takes."""
    return options_table(SHARED_OPTIONS.values(), "shared by the client commands")


def commands() -> str:
    """Every command with its arguments and options."""
    return "\n\n".join(
        section
        for name in COMMANDS
        for section in command_sections(f"penstock {name}", get_command(build_app(name)).commands[name])
    )


def command_sections(path: str, command: Any) -> Iterator[str]:
    """One section for a command, or one for each below a group of commands, and for a group that is one."""
    if hasattr(command, "commands"):
        if command.invoke_without_command:
            yield command_section(path, command)
        for name, below in command.commands.items():
            yield from command_sections(f"{path} {name}", below)
    else:
        yield command_section(path, command)


def command_section(path: str, command: Any) -> str:
    """What a command does, with its arguments and options."""
    own = [p for p in command.params if p.name not in SHARED_OPTIONS or p.help != SHARED_OPTIONS[p.name].help]
    arguments = [p for p in own if p.param_type_name == "argument"]
    options = [p for p in own if p.param_type_name == "option"]
    usage = " ".join([path, *(p.metavar + (" ..." if p.nargs == -1 else "") for p in arguments)])
    parts = [f"## {path}", f"`{usage}`", inspect.cleandoc(command.help)]
    if options:
        parts.append(options_table(options, "option"))
    return "\n\n".join(parts)


def options_table(options: Iterable[Any], title: str) -> str:
    """A table of options, with their defaults where the help does not say them."""
    lines = [f"| {title} | |", "| --- | --- |"]
    for option in options:
        names = ", ".join(f"`{name}`" for name in option.opts)
        metavar = "" if option.is_flag else " `{}`".format(option.metavar.replace("|", "\\|"))
        default = "" if option.is_flag or option.default is None else f" Default: `{shown(option.default)}`."
        environment = f" Environment: `{option.envvar}`." if option.envvar else ""
        lines.append(f"| {names}{metavar} | {option.help}{default}{environment} |")
    return "\n".join(lines)


def shown(default: Any) -> str:
    """A default as it is typed."""
    return str(default.value if isinstance(default, Enum) else default)


def metrics() -> str:
    """Every metric of a node, from one that is started for it."""
    return metrics_table(asyncio.run(collected()))


def query_metrics() -> str:
    """Every metric of a session's queries."""
    return metrics_table(QueryMetrics().collect())


def process_metrics() -> str:
    """Every metric of a process."""
    return metrics_table(registry_of().collect())


def sql_metrics() -> str:
    """Every metric of a SQL server."""
    return metrics_table(SqlMetrics(lambda: Figures({}, {}, {}, 0, 0), lambda: 0).collect())


def registry_metrics() -> str:
    """Every metric of a schema registry."""
    return metrics_table(RegistryMetrics(Registry().counts, lambda: False).collect())


def view_metrics() -> str:
    """Every metric of a server of views."""
    return metrics_table(ViewMetrics(lambda: (), lambda: 0, lambda: True).collect())


def metrics_table(families: Iterable[Metric]) -> str:
    """As Prometheus gets them."""
    lines = ["| name | type | labels | |", "| --- | --- | --- | --- |"]
    for family in sorted(families, key=lambda family: family.name):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in family._labelnames)
        lines.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |")
    return "\n".join(lines)


async def collected() -> list[Metric]:
    """What a node that has just started tells Prometheus."""
    with TemporaryDirectory() as directory:
        settings = {"log.dirs": directory, "listeners": "PLAINTEXT://127.0.0.1:0"}
        broker = Broker(BrokerConfig.single_node(settings))
        await broker.start()
        try:
            return list(BrokerCollector(broker).collect())
        finally:
            await broker.stop()


SHARED_OPTIONS = {
    option.name: option
    for option in get_command(build_app("topic")).commands["topic"].commands["list"].params
    if option.name in ("bootstrap", "command_config", "json_output")
}


if __name__ == "__main__":
    main()
