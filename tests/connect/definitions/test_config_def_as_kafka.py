"""Random definitions and configurations give the same values and errors as Kafka's ConfigDef in a JVM."""

import json
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.connect.definitions.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    Width,
)
from penstock.connect.definitions.config_key import Validator
from penstock.connect.definitions.config_types import invalid, java_text, printed
from penstock.connect.definitions.validators import (
    CaseInsensitiveValidString,
    CompositeValidator,
    ListSize,
    NonEmptyString,
    NonEmptyStringWithoutControlChars,
    NonNullValidator,
    Range,
    ValidList,
    ValidString,
)
from penstock.connect.errors import ConfigInvalid

TIMEOUT_S = 300
CLASSES = ("java.lang.String", "java.util.List")
NUMBERS = (
    "0",
    "7",
    "-3",
    "+5",
    " 12 ",
    "99",
    "32768",
    "2147483648",
    "9223372036854775808",
    "1_0",
    "",
    "x",
    "٣",
)
DOUBLES = (
    "1.5",
    "-.5",
    "2.",
    "1e3",
    "1E-9",
    "12345678.9",
    "3d",
    "0x1.8p1",
    "NaN",
    "Infinity",
    "inf",
    "1e",
    "+4",
)
WORDS = ("a", "b", "A", "", " b ", "one", "TWO", "two\tthree", "\x01c", "é", "TWO,one", "Bb", "AaAa", "zeta")
LISTS = ("", "a", "a,b", " a , b ", "a,a", "a,,b", ",", "one,two,three,four", "b")
TEXTS = {
    ConfigType.BOOLEAN: ("true", "FALSE", " True ", "yes", "", "1"),
    ConfigType.STRING: WORDS,
    ConfigType.INT: NUMBERS,
    ConfigType.SHORT: NUMBERS,
    ConfigType.LONG: NUMBERS,
    ConfigType.DOUBLE: (*DOUBLES, *NUMBERS),
    ConfigType.LIST: LISTS,
    ConfigType.CLASS: (*CLASSES, " java.util.List ", "no.such.Class"),
    ConfigType.PASSWORD: WORDS,
}
WITHOUT_ARGUMENTS: dict[str, type[NonNullValidator | NonEmptyString | NonEmptyStringWithoutControlChars]] = {
    "non_null": NonNullValidator,
    "non_empty": NonEmptyString,
    "no_controls": NonEmptyStringWithoutControlChars,
}
NUMERIC = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE)


def some_words(chance: random.Random, texts: tuple[str, ...]) -> list[str]:
    return chance.sample(texts, chance.randint(1, 4))


def random_validator(chance: random.Random, type_: ConfigType) -> list[Any] | None:
    """Describe a validator that fits a type."""
    if chance.random() < 0.3:
        return None
    choices: list[list[Any]] = [["non_null", []]]
    if type_ in NUMERIC:
        least = chance.choice([-5, 0, 0.5, 10])
        choices += [["at_least", [least]], ["between", [least, chance.choice([10, 99.5, 1000])]]]
    elif type_ is ConfigType.STRING:
        choices += [["string", some_words(chance, WORDS)], ["any_case", some_words(chance, WORDS)]]
        choices += [["non_empty", []], ["no_controls", []]]
        choices += [["both", [["non_null", []], ["string", some_words(chance, WORDS)]]]]
    elif type_ is ConfigType.LIST:
        is_empty_allowed = chance.random() < 0.5
        choices += [["list", some_words(chance, ("a", "b", "c", "one")), is_empty_allowed]]
        choices += [["any_list", [], is_empty_allowed, chance.random() < 0.5], ["size", [2]]]
    return chance.choice(choices)


def random_key(chance: random.Random, index: int, names: list[str]) -> dict[str, Any]:
    type_ = chance.choice(list(ConfigType))
    validator = random_validator(chance, type_)
    later = names[index + 1 :]
    key: dict[str, Any] = {
        "name": names[index],
        "type": type_.name,
        "validator": validator,
        "importance": chance.choice(list(Importance)).name,
        "group": chance.choice([None, "first", "second"]),
        "order": chance.randint(-1, 3),
        "width": chance.choice(list(Width)).name,
        "display_name": names[index].upper(),
        "dependents": chance.sample(later, min(len(later), chance.choice([0, 0, 0, 1, 2]))),
        "recommender": None,
    }
    if chance.random() < 0.02:
        key["dependents"].append("undefined")
    if chance.random() < 0.3:
        values, other = some_words(chance, WORDS), chance.choice(names)
        key["recommender"] = {"values": values, "visible_with": other, "fails": chance.random() < 0.1}
    if chance.random() < 0.4 or validator == ["size", [2]]:  # which fails on null, in Kafka
        key["default"] = good_default(type_)
    elif chance.random() < 0.3:
        key["default"] = chance.choice([None, *TEXTS[type_]])
    return key


def good_default(type_: ConfigType) -> str:
    """A default that most validators accept."""
    numbers = dict.fromkeys(NUMERIC, "10")
    given = {ConfigType.BOOLEAN: "true", ConfigType.CLASS: CLASSES[0], ConfigType.LIST: "a"}
    return {**numbers, **given}.get(type_, "a")


def random_question(chance: random.Random) -> dict[str, Any]:
    names = [f"key.{index}" for index in range(chance.randint(1, 6))]
    keys = [random_key(chance, index, names) for index in range(len(names))]
    prefix = chance.choice([None, None, "inner."])
    properties = {
        (prefix or "") + key["name"]: chance.choice(TEXTS[ConfigType[key["type"]]])
        for key in keys
        if chance.random() < 0.7
    }
    return {"keys": keys, "prefix": prefix, "properties": properties}


@dataclass
class Recommending:
    """The recommender that KafkaConfigDef.java makes of the same description."""

    values: list[str]
    visible_with: str
    fails: bool

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        if self.fails:
            raise invalid(name, len(parsed), "refused by its recommender")
        return self.values

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return parsed.get(self.visible_with) is not None


def made_validator(given: list[Any] | None) -> Validator | None:
    match given:
        case ["at_least" | "between", bounds]:
            return Range(*bounds)
        case ["string", texts]:
            return ValidString(*texts)
        case ["any_case", texts]:
            return CaseInsensitiveValidString(*texts)
        case ["list", texts, may_be_empty]:
            return ValidList(*texts, may_be_empty=may_be_empty)
        case ["any_list", _, may_be_empty, may_be_null]:
            return ValidList(may_be_empty=may_be_empty, may_be_null=may_be_null)
        case ["size", [most]]:
            return ListSize(most)
        case ["both", parts]:
            return CompositeValidator(*[made for part in parts if (made := made_validator(part))])
        case [name, _]:
            return WITHOUT_ARGUMENTS[name]()
    return None


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Answer as KafkaConfigDef.java does."""
    definition = ConfigDef()
    try:
        for key in question["keys"]:
            define(definition, key)
    except ConfigInvalid as refused:
        return {"refused": str(refused)}
    if (prefix := question["prefix"]) is not None:
        definition = ConfigDef().embed(prefix, "Embedded", 3, definition)
    properties = question["properties"]
    try:
        parsed: Any = definition.parse(properties, find_class)
        parsed = {name: java_text(value) for name, value in parsed.items()}
    except ConfigInvalid as refused:
        parsed = str(refused)
    return {
        "groups": definition.groups,
        "keys": [shown(key) for key in definition.keys.values()],
        "parsed": parsed,
        "validated": {
            each.name: [java_text(each.value), each.errors, each.recommended_values, each.visible]
            for each in definition.validate(properties, find_class)
        },
    }


def find_class(name: str) -> str | None:
    return name if name in CLASSES else None


def define(definition: ConfigDef, key: dict[str, Any]) -> None:
    type_ = ConfigType[key["type"]]
    default = key.get("default", REQUIRED)
    if type_ is ConfigType.CLASS and isinstance(default, str) and find_class(default.strip()) is None:
        # Kafka loads the class of a default at once; a definition of ours knows no classes
        raise invalid(key["name"], default, f"Class {default} could not be found.")
    recommender = key["recommender"]
    definition.define(
        key["name"],
        type_,
        default,
        made_validator(key["validator"]),
        Importance[key["importance"]],
        group=key["group"],
        order=key["order"],
        width=Width[key["width"]],
        display_name=key["display_name"],
        dependents=key["dependents"],
        recommender=None if recommender is None else Recommending(**recommender),
    )


def shown(key: ConfigKey) -> list[str]:
    default = (printed(key.default) or java_text(key.default)) if key.has_default else "required"
    return [
        *(key.name, key.type.name, "" if key.default in ("", []) else default),
        java_text(key.validator),
        *(key.importance.name, java_text(key.group), str(key.order), key.width.name, key.display_name),
        java_text(key.dependents),
    ]


@pytest.mark.longer
def test_values_and_errors_are_those_of_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    cases = repetitions("PENSTOCK_CONFIG_DEF_CASES", 4_000, 100_000)
    questions = [random_question(chance) for _ in range(cases)]
    asked = tmp_path / "questions"
    asked.write_text("".join(json.dumps(question) + "\n" for question in questions), encoding="utf-8")
    source = Path(__file__).with_name("KafkaConfigDef.java")
    answers = run_java(kafka_libs, str(source), str(asked), timeout_s=TIMEOUT_S).splitlines()
    assert len(answers) == cases
    for question, line in zip(questions, answers, strict=True):
        assert answer(question) == json.loads(line), question
    assert sum("refused" not in line for line in answers) > cases // 2
