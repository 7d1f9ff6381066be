"""The examples of configurations are valid, and name connectors that ship."""

from pathlib import Path

import javaproperties
import pytest

from penstock.connect.connector.connector import Connector
from penstock.connect.plugins.shipped import shipped_plugins

EXAMPLES = Path(__file__).parents[4] / "examples" / "connectors"


@pytest.mark.parametrize("name", ["csv_files", "log_files", "json_files", "s3_objects", "generated_orders"])
def test_an_example_is_valid(name: str) -> None:
    properties = javaproperties.loads((EXAMPLES / f"{name}.properties").read_text())
    named = properties["connector.class"]
    (plugin,) = {
        each.name: each for each in shipped_plugins() if named in (each.name, short(each.name))
    }.values()
    loaded = plugin.load()
    assert issubclass(loaded, Connector)
    errors = {each.name: each.errors for each in loaded().validate(properties) if each.errors}
    assert errors == {}


def short(name: str) -> str:
    return name.rpartition(".")[2].removesuffix("Connector")
