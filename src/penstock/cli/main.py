"""`penstock`: one command with many below it, of which only the one that is called is imported.

A node should be ready within a second, while most other commands are clients that load librdkafka or Spark.
So the table is text: the help of the whole comes from here, that of a command from its module.
"""

import importlib
import sys

import typer

# Name: (module, its function or group of commands, what it does).
COMMANDS = {
    "start": ("penstock.cli.start", "start", "Run a node."),
    "topic": ("penstock.cli.topic", "app", "Create, list, describe, alter and delete topics."),
    "produce": ("penstock.cli.produce", "produce", "Write records to a topic."),
    "consume": ("penstock.cli.consume", "consume", "Read records of topics."),
    "group": ("penstock.cli.group", "app", "List, describe, reset and delete consumer groups."),
    "config": ("penstock.cli.config", "app", "Describe and alter configurations."),
    "bench": ("penstock.cli.bench", "bench", "Measure throughput and latency of a node."),
    "demo": ("penstock.cli.demo", "demo", "Stream real flights through Spark and check the result."),
}


def build_app(called: str | None) -> typer.Typer:
    """The whole command line, with the called command in full and the others by name only."""
    app = typer.Typer(
        name="penstock",
        help="Event streaming for Python and Spark, with the log and the protocol of Apache Kafka.",
        no_args_is_help=True,
        add_completion=False,
    )
    app.callback()(_root)
    for name, (module_name, attribute, summary) in COMMANDS.items():
        if name != called:
            app.command(name, help=summary)(_root)
            continue
        command = getattr(importlib.import_module(module_name), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _root() -> None:
    """Nothing to do by itself; stands in for commands that are not called."""


def main() -> None:
    """Entry point of the `penstock` script."""
    called = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    build_app(called)(prog_name="penstock")


if __name__ == "__main__":
    main()
