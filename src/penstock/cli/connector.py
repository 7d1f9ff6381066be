"""`penstock connector`: manage the connectors of a Connect cluster over HTTP, ours or Apache Kafka's."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import javaproperties
import typer

from penstock.cli.connect_http import DEFAULT_URL, Url, Worker
from penstock.cli.connection import EXIT_REFUSED, EXIT_USAGE, JsonOutput, fail
from penstock.cli.output import console, print_json, print_table, print_warning

app = typer.Typer(
    name="connector", help="Create, list, change, restart and delete connectors.", no_args_is_help=True
)

_CLASS: Final = "connector.class"
_CLIENTS: Final = ("producer.override.", "consumer.override.", "admin.override.")
_CONVERTERS: Final = ("key.converter.", "value.converter.", "header.converter.")
_PREFIXES: Final = (*_CLIENTS, *_CONVERTERS, "topic.creation.")
"""Keys whose definitions workers do not list."""

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the connector.")]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="The configuration: properties, or JSON with or without the connector's name; - is stdin.",
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", metavar="KEY=VALUE", help="A configuration beside the file's; repeatable."
    ),
]


class InitialState(StrEnum):
    """The states in which connectors can be created (KIP-980)."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@app.command("list")
def list_connectors(url: Url = DEFAULT_URL, json_output: JsonOutput = False) -> None:
    """List connectors with their states and those of their tasks."""
    worker = Worker(url)
    # One expansion at a time: a worker that has no status of a connector yet leaves it out.
    names, found = worker.get("connectors"), worker.get("connectors", expand="status")
    states = {name: found.get(name, {}).get("status") for name in sorted(names)}
    if json_output:
        print_json(states)
        return
    print_table(["NAME", "TYPE", "STATE", "TASKS", "WORKER"], map(_row, states, states.values()))


def _row(name: str, status: Mapping[str, Any] | None) -> Sequence[object]:
    if status is None:
        return name, None, "UNASSIGNED", None, None
    connector = status["connector"]
    tasks = [task["state"] for task in status["tasks"]]
    counted = ", ".join(f"{tasks.count(state)} {state}" for state in dict.fromkeys(tasks))
    return name, status.get("type"), connector["state"], counted or None, connector["worker_id"]


@app.command()
def status(name: Name, url: Url = DEFAULT_URL, json_output: JsonOutput = False) -> None:
    """Show the states of a connector and its tasks, and why a failed one has failed."""
    found = Worker(url).get("connectors", name, "status")
    if json_output:
        print_json(found)
        return
    parts = [("connector", found["connector"]), *((f"task {task['id']}", task) for task in found["tasks"])]
    print_table([name, "STATE", "WORKER"], [(part, each["state"], each["worker_id"]) for part, each in parts])
    for part, each in parts:
        if each.get("trace"):
            _say(f"\n{part} failed:\n{each['trace'].rstrip()}")


@app.command()
def show(name: Name, url: Url = DEFAULT_URL, json_output: JsonOutput = False) -> None:
    """Print the configuration of a connector, as a file that `create` takes."""
    config = Worker(url).get("connectors", name, "config")
    if json_output:
        print_json(config)
    else:
        sys.stdout.write(javaproperties.dumps(dict(sorted(config.items())), timestamp=None))


@app.command()
def create(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The name of the connector. Default: the file's."),
    ] = None,
    file: File = None,
    config: Config = None,
    state: Annotated[
        InitialState, typer.Option("--state", metavar="STATE", help="running, paused or stopped.")
    ] = InitialState.RUNNING,
    replace: Annotated[
        bool, typer.Option("--replace", help="Give a connector that exists this configuration.")
    ] = False,
    url: Url = DEFAULT_URL,
    json_output: JsonOutput = False,
) -> None:
    """Create a connector."""
    wanted = _configuration(file, config)
    named = name or wanted.get("name")
    if not named:
        fail("give the NAME of the connector", EXIT_USAGE)
    if replace and state is not InitialState.RUNNING:
        fail(f"--state {state} is for a new connector, which --replace may not create", EXIT_USAGE)
    worker = Worker(url)
    wanted["name"] = named
    if replace:
        found = worker.put("connectors", named, "config", body=wanted)
    else:
        body = {"name": named, "config": wanted}
        if state is not InitialState.RUNNING:
            body["initial_state"] = state.name
        found = worker.post("connectors", body=body)
    _told(found, f"{'configured' if replace else 'created'} {named}", json_output)


@app.command()
def alter(
    name: Name,
    file: File = None,
    config: Config = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="KEY", help="A configuration to remove; repeatable."),
    ] = None,
    url: Url = DEFAULT_URL,
    json_output: JsonOutput = False,
) -> None:
    """Change single configurations of a connector."""
    changed = _configuration(file, config) if file or config or not remove else {}
    wanted = {**dict.fromkeys(remove or ()), **changed}
    _told(Worker(url).patch("connectors", name, "config", body=wanted), f"configured {name}", json_output)


@app.command()
def validate(
    file: File = None, config: Config = None, url: Url = DEFAULT_URL, json_output: JsonOutput = False
) -> None:
    """Check a configuration without creating a connector; exit code 1 if it has errors."""
    wanted = _configuration(file, config)
    if _CLASS not in wanted:
        fail(f"the configuration has no {_CLASS}", EXIT_USAGE)
    wanted.setdefault("name", "validated")
    # Workers compare the plugin of the path with the class: its last part is an alias of it.
    plugin = wanted[_CLASS].rpartition(".")[2].rpartition(":")[2]
    found = Worker(url).put("connector-plugins", plugin, "config", "validate", body=wanted)
    if json_output:
        print_json(found)
    else:
        for each in found["configs"]:
            for error in each["value"]["errors"]:
                _say(f"{each['value']['name']}: {error}")
        definitions = [each["definition"] for each in found["configs"]]
        _warn_of_unknown(wanted, [each["name"] for each in definitions if each is not None])
        _say(f"{found['error_count']} {'error' if found['error_count'] == 1 else 'errors'}")
    if found["error_count"]:
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def pause(name: Name, url: Url = DEFAULT_URL) -> None:
    """Pause a connector: its tasks stay, and process nothing."""
    Worker(url).put("connectors", name, "pause")
    _say(f"pausing {name}")


@app.command()
def resume(name: Name, url: Url = DEFAULT_URL) -> None:
    """Resume a connector that is paused or stopped."""
    Worker(url).put("connectors", name, "resume")
    _say(f"resuming {name}")


@app.command()
def stop(name: Name, url: Url = DEFAULT_URL) -> None:
    """Stop a connector: its tasks end, its configuration and its offsets stay."""
    Worker(url).put("connectors", name, "stop")
    _say(f"stopping {name}")


@app.command()
def restart(
    name: Name,
    task: Annotated[int | None, typer.Option("--task", metavar="N", help="Only restart this task.")] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Also restart the connector's tasks.")] = False,
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Only restart what has failed.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Restart a connector, or a task of it."""
    worker = Worker(url)
    if task is None:
        worker.post("connectors", name, "restart", includeTasks=tasks, onlyFailed=only_failed)
        _say(f"restarting {name}")
        return
    if tasks or only_failed:
        fail("--task restarts one task; --tasks and --only-failed are for the connector", EXIT_USAGE)
    worker.post("connectors", name, "tasks", str(task), "restart")
    _say(f"restarting {name}-{task}")


@app.command()
def offsets(
    name: Name,
    alter: Annotated[
        Path | None,
        typer.Option(
            "--alter",
            metavar="FILE",
            help="Set the offsets of a stopped connector to this file's; - is stdin.",
        ),
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Forget the offsets of a stopped connector.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Print how far a connector is, as JSON that --alter takes; or change it."""
    if alter is not None and reset:
        fail("--alter and --reset exclude each other", EXIT_USAGE)
    path = ("connectors", name, "offsets")
    if alter is not None:
        _say(Worker(url).patch(*path, body=_json(_text(alter), alter))["message"])
    elif reset:
        _say(Worker(url).delete(*path)["message"])
    else:
        print_json(Worker(url).get(*path))


@app.command()
def delete(name: Name, url: Url = DEFAULT_URL) -> None:
    """Delete a connector; its offsets stay for a connector of the same name."""
    Worker(url).delete("connectors", name)
    _say(f"deleted {name}")


@app.command()
def plugins(
    everything: Annotated[
        bool, typer.Option("--all", help="Also list converters, transforms and predicates.")
    ] = False,
    url: Url = DEFAULT_URL,
    json_output: JsonOutput = False,
) -> None:
    """List the connectors that the workers can run."""
    found = Worker(url).get("connector-plugins", connectorsOnly=not everything)
    if json_output:
        print_json(found)
    else:
        print_table(
            ["CLASS", "TYPE", "VERSION"],
            [(each["class"], each["type"], each.get("version")) for each in found],
        )


def _warn_of_unknown(wanted: Iterable[str], known: Sequence[str]) -> None:
    """Warn of keys that no definition has. Workers accept them: a connector may read more than it defines."""
    for key in wanted:
        if key in known or key.startswith(_PREFIXES):
            continue
        similar = get_close_matches(key, known, 1)
        print_warning(f"nothing defines {key}" + (f"; is {similar[0]} meant?" if similar else ""))


def _told(found: object, line: str, json_output: bool) -> None:
    if json_output:
        print_json(found)  # type: ignore[arg-type]
    else:
        _say(line)


def _say(line: str) -> None:
    """Print a line unchanged and unwrapped, as traces and names may contain brackets."""
    console().print(line, markup=False, soft_wrap=True)


def _configuration(file: Path | None, config: Iterable[str] | None) -> dict[str, str]:
    """The configuration of a file and of options, which win."""
    if file is None and not config:
        fail("give the configuration by --file or --config", EXIT_USAGE)
    found = {} if file is None else _read(file)
    for each in config or ():
        key, separator, value = each.partition("=")
        if not separator or not key:
            fail(f"--config {each}: expected KEY=VALUE", EXIT_USAGE)
        found[key] = value
    return found


def _read(file: Path) -> dict[str, str]:
    text = _text(file)
    if file.suffix != ".json" and not text.lstrip().startswith("{"):
        return dict(javaproperties.loads(text))
    found = _json(text, file)
    config = found.get("config", found) if isinstance(found, dict) else None
    if not isinstance(config, dict) or any(isinstance(value, dict | list) for value in config.values()):
        fail(f"{file}: expected a JSON object of plain values, or one with name and config", EXIT_USAGE)
    named = {"name": found["name"]} if "name" in found else {}
    values = {**named, **config}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}


def _json(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        fail(f"{file}: expected JSON: {error}", EXIT_USAGE)


def _text(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {file}: {getattr(error, 'strerror', None) or error}", EXIT_USAGE)
