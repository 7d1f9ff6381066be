"""A ConfigDef parses configurations with Kafka's messages."""

import pytest

from penstock.connect import REQUIRED, ConfigDef, ConfigInvalid, ConfigType, Password


def test_values_are_parsed_to_the_types_of_their_keys() -> None:
    definition = ConfigDef().define("size", ConfigType.INT, 100).define("tables", ConfigType.LIST)
    assert definition.parse({"tables": " a , b", "other": "x"}) == {"size": 100, "tables": ["a", "b"]}


def test_a_required_key_must_be_there() -> None:
    definition = ConfigDef().define("url", ConfigType.STRING, REQUIRED)
    with pytest.raises(ConfigInvalid, match=r'^Missing required configuration "url" which has no default'):
        definition.parse({})


def test_a_value_must_fit_its_type() -> None:
    definition = ConfigDef().define("size", ConfigType.INT)
    with pytest.raises(ConfigInvalid, match=r"^Invalid value 1x for configuration size: Not a number of"):
        definition.parse({"size": "1x"})


def test_a_name_is_defined_once() -> None:
    definition = ConfigDef().define("size", ConfigType.INT)
    with pytest.raises(ConfigInvalid, match=r"^Configuration size is defined twice\.$"):
        definition.define("size", ConfigType.LONG)


def test_passwords_are_not_printed() -> None:
    parsed = ConfigDef().define("secret", ConfigType.PASSWORD).parse({"secret": "hunter2"})
    assert parsed["secret"] == Password("hunter2")
    assert "hunter2" not in f"{parsed} {parsed['secret']}"


def test_a_parsed_list_is_not_the_default_itself() -> None:
    definition = ConfigDef().define("tables", ConfigType.LIST, "a,b")
    definition.parse({})["tables"].clear()
    assert definition.parse({}) == {"tables": ["a", "b"]}
