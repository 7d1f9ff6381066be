"""The plugins that Penstock has under Java's names are listed and configured as those of Kafka Connect."""

from pathlib import Path
from typing import Any

import pytest
from connect_validation_jvm import CONNECT, ask, plugins_like
from oracle_plugins import JAVA

from penstock.connect.errors import ConfigInvalid, PluginNotFound
from penstock.connect.plugins.plugin import PluginKind
from penstock.connect.plugins.registry import LISTED, Plugins
from penstock.connect.plugins.shipped import shipped_plugins
from penstock.connect.validation.connector_validation import ConnectorValidator

WORKER = {
    "bootstrap.servers": "127.0.0.1:1",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
    "offset.storage.file.filename": "offsets",
}
SHIPPED = [
    plugin for plugin in shipped_plugins() if plugin.kind in LISTED and plugin.name.startswith(CONNECT)
]
NAMES = (
    *("FileStreamSource", f"{CONNECT}file.FileStreamSinkConnector", "OracleSource", f"{JAVA}OracleTransform"),
    *(
        "OraclePredicate",
        "Oracle",
        f"{JAVA}OracleConverter",
        "NoSuch",
        "All",
        *(each.name for each in SHIPPED),
    ),
)


@pytest.fixture(scope="module")
def answers(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What Connect answers: a list of all plugins, and the keys of each in NAMES."""
    questions = [[0, name] for name in NAMES]
    return ask(kafka_libs, tmp_path_factory.mktemp("definitions"), [WORKER], questions)


def keys_of(validator: ConnectorValidator, name: str) -> list[dict[str, Any]]:
    keys = [key.as_json() for key in validator.definition_of(name)]
    for key in keys:
        del key["documentation"]
    return keys


def test_keys_of_plugins_are_those_of_connect(answers: list[Any]) -> None:
    listed, *definitions = answers
    validator = ConnectorValidator(plugins_like(listed), WORKER)
    for name, theirs in zip(NAMES, definitions, strict=True):
        if isinstance(theirs, list):
            assert keys_of(validator, name) == theirs, name
        else:
            error = PluginNotFound if theirs["error"] == "NotFoundException" else ConfigInvalid
            with pytest.raises(error) as caught:
                validator.definition_of(name)
            shown = str(caught.value).partition(" Valid types")[0].rpartition(" class ")[2]
            assert shown in theirs["message"], name


def test_all_converters_and_transforms_of_connect_are_there(answers: list[Any]) -> None:
    if not SHIPPED:
        pytest.skip("the converters and transforms are not in this package")
    theirs = [
        each
        for each in answers[0]
        if each["type"] not in ("source", "sink") and not each["class"].startswith(JAVA)
    ]
    ours = Plugins(shipped_plugins(), from_packages=False).installed()
    apache = [plugin for plugin in ours if plugin.name.startswith(CONNECT)]
    assert [each.as_json() for each in apache if each.kind not in CONNECTORS] == theirs


CONNECTORS = (PluginKind.SOURCE, PluginKind.SINK)
