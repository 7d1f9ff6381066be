"""Classes in Python are connectors, converters and transforms of a configuration without further ado."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.connect import ConfigDef, ConfigType, NonEmptyString, SourceRecord, SourceTask
from penstock.connect.plugins.plugin import Plugin, PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.shipped import shipped_plugins
from penstock.connect.validation.connector_validation import ConnectorValidator
from penstock.connect.validation.enriched import SIMPLE_HEADER_CONVERTER


class Weather(SourceTask):
    """A source in a few lines, which needs no class of a connector."""

    definition = ConfigDef().define("city", ConfigType.STRING, validator=NonEmptyString())

    def poll(self) -> list[SourceRecord]:
        return []


class Upper:
    """A transform."""

    definition = ConfigDef().define("field", ConfigType.STRING)

    def configure(self, properties: Mapping[str, str]) -> None:
        pass

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        return record

    def close(self) -> None:
        pass


class Broken:
    """A converter that cannot be made, without a definition."""

    def __init__(self) -> None:
        raise ValueError("never made")

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        pass

    def to_bytes(self, *arguments: object) -> None:
        pass

    def from_bytes(self, *arguments: object) -> None:
        pass


@pytest.fixture
def validator() -> ConnectorValidator:
    header_converter = Plugin(SIMPLE_HEADER_CONVERTER, PluginKind.HEADER_CONVERTER, "1.0", lambda: Upper)
    return ConnectorValidator(Plugins([*shipped_plugins(), header_converter], from_packages=False), {})


CONFIG = {"name": "s1", "connector.class": f"{__name__}:Weather", "city": "Ulm"}


def test_a_task_is_a_connector(validator: ConnectorValidator) -> None:
    assert validator.validate(CONFIG).errors == []
    infos = validator.validate({**CONFIG, "city": "", "tasks.max": "0"})
    assert infos.error_count == 2
    assert infos.errors == [
        "Invalid value 0 for configuration tasks.max: Value must be at least 1",
        "Invalid value  for configuration city: String must be non-empty",
    ]
    assert [key.name for key in validator.definition_of(f"{__name__}.Weather")][:2] == ["city", "name"]


def test_a_class_is_a_transform(validator: ConnectorValidator) -> None:
    transform = {"transforms": "up", "transforms.up.type": f"{__name__}:Upper"}
    assert validator.validate({**CONFIG, **transform}).errors == [
        'Missing required configuration "field" which has no default value.'.replace(
            "field", "transforms.up.field"
        )
    ]
    assert validator.validate({**CONFIG, **transform, "transforms.up.field": "x"}).errors == []


def test_a_class_of_another_kind_is_refused(validator: ConnectorValidator) -> None:
    transform = {"transforms": "up", "transforms.up.type": f"{__name__}:Weather"}
    assert validator.validate({**CONFIG, **transform}).errors == [
        f"Class class {__name__}.Weather does not implement the Transformation interface"
    ]


def test_a_class_that_cannot_be_made_is_refused(validator: ConnectorValidator) -> None:
    assert validator.validate({**CONFIG, "value.converter": f"{__name__}:Broken"}).errors == [
        f"Invalid value {__name__}.Broken for configuration value.converter: Could not instantiate class: "
        "never made"
    ]


def test_a_module_that_cannot_be_imported_is_an_error_of_its_key(
    validator: ConnectorValidator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_transform.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    transform = {"transforms": "up", "transforms.up.type": "broken_transform:Upper"}
    assert validator.validate({**CONFIG, **transform}).errors == [
        "Failed to import broken_transform for the plugin broken_transform:Upper: "
        "ZeroDivisionError('division by zero')"
    ]
