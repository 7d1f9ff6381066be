"""Asks Kafka Connect's own herders in a JVM how they validate configurations of connectors."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oracle_plugins import JAVA, loader

from kafka_node import java_command
from maven_jars import jars_of
from penstock.connect.plugins.plugin import Plugin, PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.shipped import shipped_plugins

TIMEOUT_S = 300
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
CONNECT = "org.apache.kafka.connect."
INTERFACES = {
    "source.SourceConnector": "OracleSource",
    "transforms.Transformation": "OracleTransform",
    "transforms.predicates.Predicate": "OraclePredicate",
    "storage.Converter": "OracleConverter",
}


def ask(
    libs: Path, directory: Path, workers: Sequence[Mapping[str, str]], questions: Sequence[Any]
) -> list[Any]:
    """The answers of ConnectValidation.java; the first lists all plugins."""
    files = jars_of(Path(__file__).with_name("connect_file_pom.xml"), "connect-file-4.3.1")
    services = directory / "META-INF" / "services"
    services.mkdir(parents=True)
    for interface, found in INTERFACES.items():
        (services / f"{CONNECT}{interface}").write_text(f"{JAVA}{found}\n")
    for name, lines in (("workers", workers), ("questions", questions)):
        (directory / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = java_command(libs, str(Path(__file__).with_name("ConnectValidation.java")), QUIET)
    command[command.index("-cp") + 1] += f":{files}/*:{directory}"
    asked = [str(directory / name) for name in ("workers", "questions")]
    done = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.strip().split("\n")]


def plugins_like(listed: Sequence[Mapping[str, str]]) -> Plugins:
    """Our plugins for those that Connect lists, with stand-ins for those that only Connect has."""
    ours = (plugin for plugin in shipped_plugins() if plugin.name.startswith(CONNECT))
    shipped = {(plugin.name, plugin.kind): plugin for plugin in ours}
    for each in listed:
        name, kind = each["class"], PluginKind(each["type"])
        if (name, kind) not in shipped:
            shipped[name, kind] = Plugin(name, kind, each.get("version", "undefined"), loader(name))
    return Plugins(shipped.values(), from_packages=False)
