"""Plugins are found by Java's names, aliases, Python's names and entry points."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.connect import (
    ConfigDef,
    ConfigType,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from penstock.connect.connector.sink import SinkConnector
from penstock.connect.errors import PluginNotFound, PluginVersionInvalid
from penstock.connect.plugins.loading import kinds_of
from penstock.connect.plugins.plugin import Plugin, PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.shipped import shipped_plugins
from penstock.connect.plugins.versions import required_versions

JAVA = "org.example."


class Numbers(SourceTask):
    """A source of numbers."""

    definition = ConfigDef().define("most", ConfigType.INT, 10)
    version = "1.5"

    def poll(self) -> list[SourceRecord]:
        return []


class Discarding(SinkTask):
    def put(self, records: Sequence[SinkRecord]) -> None:
        pass


class Clicks(SourceConnector):
    task_class = Numbers

    class Inner(SourceConnector):
        task_class = Numbers


class Rot13:
    definition = ConfigDef()

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        pass

    def to_bytes(self, *arguments: object) -> bytes | None:
        return None

    def from_bytes(self, *arguments: object) -> object:
        return None


def plugin(name: str, kind: PluginKind, loaded: type[Any] = object, version: str = "1.0") -> Plugin:
    return Plugin(JAVA + name, kind, version, lambda: loaded)


@pytest.fixture
def plugins() -> Plugins:
    return Plugins(
        [
            plugin("FileStreamSourceConnector", PluginKind.SOURCE, Clicks),
            plugin("JsonConverter", PluginKind.CONVERTER, Rot13),
            plugin("JsonConverter", PluginKind.HEADER_CONVERTER),
            plugin("InsertField$Key", PluginKind.TRANSFORMATION),
            plugin("InsertField$Value", PluginKind.TRANSFORMATION),
            plugin("Cast$Value", PluginKind.TRANSFORMATION),
            plugin("one.TwiceConnector", PluginKind.SINK, Discarding),
            plugin("other.TwiceConnector", PluginKind.SINK, Discarding),
        ],
        from_packages=False,
    )


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("org.example.JsonConverter", "JsonConverter"),
        ("JsonConverter", "JsonConverter"),
        ("Json", "JsonConverter"),
        ("FileStreamSource", "FileStreamSourceConnector"),
        ("InsertField$Value", "InsertField$Value"),
        ("Key", "InsertField$Key"),
    ],
)
def test_names_and_aliases(plugins: Plugins, name: str, full: str) -> None:
    found = plugins.find(name)
    assert found is not None
    assert found.name == JAVA + full
    assert plugins.class_name(name) == JAVA + full


@pytest.mark.parametrize(
    "name", ["Value", "no.such.Class", "no.such:Class", "", "os:path", "os.nothing", "a b"]
)
def test_other_names_stand_for_no_plugin(plugins: Plugins, name: str) -> None:
    assert plugins.find(name) is None
    assert plugins.class_name(name) is None


def test_one_name_can_be_of_two_kinds(plugins: Plugins) -> None:
    assert isinstance(plugins.new("Json", PluginKind.CONVERTER), Rot13)
    with pytest.raises(
        PluginNotFound, match=r"^Failed to find any class that implements Transformation and "
    ):
        plugins.new("Json", PluginKind.TRANSFORMATION)


@pytest.mark.parametrize("name", [f"{__name__}:Clicks", f"{__name__}.Clicks", "FileStreamSource"])
def test_connectors(plugins: Plugins, name: str) -> None:
    assert isinstance(plugins.connector(name), Clicks)
    assert plugins.connector_kind(name) is PluginKind.SOURCE


def test_a_class_may_lie_in_another(plugins: Plugins) -> None:
    assert plugins.class_name(f"{__name__}:Clicks.Inner") == f"{__name__}.Clicks.Inner"
    assert isinstance(plugins.connector(f"{__name__}.Clicks.Inner"), Clicks.Inner)


def test_a_task_gets_a_connector(plugins: Plugins) -> None:
    connector = plugins.connector(f"{__name__}:Numbers")
    assert isinstance(connector, SourceConnector)
    assert connector.task_class is Numbers
    assert connector.definition is Numbers.definition
    assert (type(connector).__name__, connector.version) == ("Numbers", "1.5")
    assert isinstance(plugins.connector(f"{__name__}.Discarding"), SinkConnector)
    assert plugins.connector_kind(f"{__name__}.Discarding") is PluginKind.SINK


def test_a_missing_connector_is_refused_as_by_connect(plugins: Plugins) -> None:
    with pytest.raises(PluginNotFound) as caught:
        plugins.connector("Nope")
    with pytest.raises(PluginNotFound, match="No module named nope is among the worker's packages"):
        plugins.connector("nope:Clicks")
    with pytest.raises(PluginNotFound, match=f"The module {__name__} has no class Nope that is a connector"):
        plugins.connector(f"{__name__}:Nope")
    text = str(caught.value)
    begin = "Failed to find any class that implements Connector and which name matches Nope, available "
    assert text.startswith(begin + "connectors are: PluginDesc{klass=class org.example.FileStreamSource")
    assert text.endswith("type=sink, typeName='sink', location='classpath'}")


def test_an_alias_of_two_connectors_is_refused(plugins: Plugins) -> None:
    with pytest.raises(
        PluginNotFound, match=r"^More than one connector matches alias Twice\. Please use full"
    ):
        plugins.connector("Twice")


def test_versions_are_required(plugins: Plugins) -> None:
    assert isinstance(plugins.connector("FileStreamSource", required_versions("[1.0,2.0)")), Clicks)
    with pytest.raises(PluginVersionInvalid) as caught:
        plugins.connector("FileStreamSource", required_versions("2.0"))
    assert caught.value.available == ("1.0",)
    assert str(caught.value) == (
        "Plugin org.example.FileStreamSourceConnector not found that matches the version range [2.0,2.0], "
        "available versions: [1.0]"
    )
    with pytest.raises(PluginVersionInvalid, match=r"is not part of Connect's plugin loading mechanism"):
        plugins.connector(f"{__name__}:Clicks", required_versions("1.5"))


def test_a_module_that_cannot_be_imported_is_an_error(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plugin.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginNotFound, match=r"No module named 'no_such_package'"):
        plugins.connector("broken_plugin:Source")


def test_packages_offer_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "offered_plugins.py").write_text(Path(__file__).read_text())
    info = tmp_path / "offered-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 2.5\n")
    entries = [
        "numbers = offered_plugins:Numbers",
        "sink = offered_plugins:Discarding",
        "bad = offered_plugins:x",
    ]
    (info / "entry_points.txt").write_text("[penstock.connect]\n" + "\n".join([*entries, "no = os:PathLike"]))
    monkeypatch.syspath_prepend(tmp_path)
    plugins = Plugins()
    offered = [each.as_json() for each in plugins.installed()]
    assert {"class": "offered_plugins.Discarding", "type": "sink", "version": "2.5"} in offered
    assert {"class": "offered_plugins.Numbers", "type": "source", "version": "1.5"} in offered
    for name in ("numbers", "Numbers", "offered_plugins.Numbers", "offered_plugins:Numbers"):
        found = plugins.find(name)
        assert found is not None
        assert found.name == "offered_plugins.Numbers"
    assert isinstance(plugins.connector("sink", required_versions("[2,3)")), SinkConnector)
    assert ["bad" if "offered_plugins:x" in message else "os:PathLike" for message in caplog.messages] == [
        "bad",
        "os:PathLike",
    ]
    sys.modules.pop("offered_plugins")


def test_kinds_follow_from_classes() -> None:
    assert kinds_of(Numbers) == (PluginKind.SOURCE,)
    assert kinds_of(Discarding) == (PluginKind.SINK,)
    assert kinds_of(Rot13) == (PluginKind.CONVERTER,)
    assert kinds_of(object) == ()


def test_what_penstock_has_can_be_loaded() -> None:
    for shipped in shipped_plugins():
        assert shipped.kind in kinds_of(shipped.load()), shipped


class Unmakeable(SourceConnector):
    task_class = Numbers

    def __init__(self) -> None:
        raise RuntimeError("it cannot be made")


def test_the_kind_of_a_connector_needs_no_instance(plugins: Plugins) -> None:
    name = f"{__name__}:{Unmakeable.__qualname__}"
    assert plugins.connector_kind(name) is PluginKind.SOURCE
    with pytest.raises(RuntimeError, match="cannot be made"):
        plugins.connector(name)
