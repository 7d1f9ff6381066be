"""Variables of random configurations get the values that Kafka's ConfigTransformer gives them in a JVM."""

import json
import os
import random
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.connect.errors import ConfigInvalid
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.shipped import shipped_plugins
from penstock.connect.providers.environment import EnvironmentProvider
from penstock.connect.providers.files import DirectoryProvider, FileProvider
from penstock.connect.providers.provider import ConfigData, ConfigProvider
from penstock.connect.providers.transformer import (
    ConfigTransformer,
    resolved_worker,
    with_variables,
    worker_transformer,
)

CASES = repetitions("PENSTOCK_CONFIG_TRANSFORMER_CASES", gate=1_500, long=100_000)
ENVIRONMENT = {"HOME_OF_IT": "here", "OTHER": "there", "EMPTY_ONE": ""}
FILES = "org.apache.kafka.common.config.provider.FileConfigProvider"


class OwnProvider:
    """Has the values that the provider of ConnectTransformer.java has."""

    def configure(self, properties: Mapping[str, str]) -> None:
        pass

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        values = {key: f"{path}-${{own:k}}{key}" for key in keys if key.startswith("k")}
        return ConfigData(values, int(path) if re.fullmatch("-?[0-9]+", path, re.ASCII) else None)

    def close(self) -> None:
        pass


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with properties, with files as Kubernetes mounts secrets, and with a directory."""
    secrets = tmp_path / "secrets"
    (secrets / "inner").mkdir(parents=True)
    (secrets / "a.properties").write_text("user=me\nescaped=a\\u00e4\\:b\ntwo\\ words = 2 \nempty=\n")
    (secrets / "token").write_text("t0ken\n")
    (secrets / "inner" / "user").write_text("ä}")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return secrets


def random_text(chance: random.Random, secrets: Path) -> str:
    paths = (
        *(f"{secrets}/a.properties", f"{secrets}", f"{secrets}/inner", f"{secrets}/inner/../token", "", "12"),
        *("-1", "0", f"{secrets}/none"),
    )
    keys = (
        "user",
        "escaped",
        "two words",
        "empty",
        "token",
        "inner",
        "HOME_OF_IT",
        "EMPTY_ONE",
        "k",
        "k:1",
        "x",
    )
    parts = []
    for _ in range(chance.randint(0, 4)):
        provider = chance.choice(("file", "dir", "env", "env", "own", "own", "none", ""))
        path = "" if provider == "env" and chance.random() < 0.9 else chance.choice(paths)
        whole = f"{provider}:{path}:" if path or chance.random() < 0.3 else f"{provider}:"
        parts.append(f"${{{whole}{chance.choice(keys)}}}")
        parts.append(chance.choice(("", " ", "$", "{", "}", "${", "x", "\n")))
    return "".join(parts)


def random_question(chance: random.Random, secrets: Path) -> list[Any]:
    properties: dict[str, str | None] = {
        f"name{index}": random_text(chance, secrets) for index in range(chance.randint(1, 3))
    }
    if chance.random() < 0.1:
        properties["null"] = None
    parameters: dict[str, dict[str, str]] = {}
    if chance.random() < 0.3:
        for provider in ("file", "dir"):
            parameters[provider] = {
                "allowed.paths": f"{secrets}/inner,{secrets.parent}/./secrets/a.properties"
            }
    if chance.random() < 0.3:
        parameters["env"] = {"allowlist.pattern": chance.choice(("HOME.*", "home", "E.*|O.*"))}
    return [properties, parameters]


def answer(properties: Mapping[str, str], parameters: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    providers: dict[str, ConfigProvider] = {
        "file": FileProvider(),
        "dir": DirectoryProvider(),
        "env": EnvironmentProvider(),
        "own": OwnProvider(),
    }
    for name, provider in providers.items():
        provider.configure(parameters.get(name, {}))
    try:
        found = ConfigTransformer(providers).transform(properties)
    except ConfigInvalid as error:
        return {"error": str(error)}
    return {"properties": found.properties, "ttls": found.ttls_ms}


@pytest.mark.longer
def test_values_are_those_of_kafka(kafka_libs: Path, secrets: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    questions = [random_question(chance, secrets) for _ in range(CASES)]
    asked = tmp_path / "questions"
    asked.write_text("".join(json.dumps(question) + "\n" for question in questions))
    source = Path(__file__).with_name("ConnectTransformer.java")
    answers = [json.loads(line) for line in run_java(kafka_libs, str(source), str(asked)).strip().split("\n")]
    for (properties, parameters), theirs in zip(questions, answers, strict=True):
        ours = answer(properties, parameters)
        if "error" in theirs:
            assert "error" in ours, (properties, parameters)  # the first of several paths differs
        else:
            assert ours == theirs, (properties, parameters)
    assert sum("error" in theirs for theirs in answers) < CASES * 3 // 4


def test_a_worker_names_its_providers(secrets: Path) -> None:
    plugins = Plugins(shipped_plugins(), from_packages=False)
    worker = {
        "config.providers": "secrets, env",
        "config.providers.secrets.class": FILES,
        "config.providers.secrets.param.allowed.paths": str(secrets),
        "config.providers.env.class": "EnvVar",
        "ssl.key.password": f"${{secrets:{secrets}/a.properties:user}}${{env:OTHER}}",
        "group.id": "${other:x}",
    }
    found = resolved_worker(plugins, worker)
    assert found["ssl.key.password"] == "methere"
    assert found["group.id"] == "${other:x}"
    transformer = worker_transformer(plugins, worker)
    raw = {"password": f"${{secrets:{secrets}/a.properties:user}}", "name": "s1"}
    connector = transformer.transform(raw).properties
    assert connector == {"password": "me", "name": "s1"}
    assert with_variables(raw, {**connector, "task": "0"}) == {**raw, "task": "0"}


def test_connectors_restart_before_their_values_expire() -> None:
    transformer = ConfigTransformer({"own": OwnProvider()})
    properties = {"a": "${own:500:k}", "b": "${own:70:k}"}
    assert transformer.transform(properties).restart_after_ms == 70
    assert transformer.transform({**properties, "config.action.reload": "none"}).restart_after_ms is None
    assert transformer.transform({"a": "x"}).restart_after_ms is None


def test_parameters_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"Invalid value here for configuration allowed\.paths"):
        FileProvider().configure({"allowed.paths": "here"})
    with pytest.raises(ConfigInvalid, match=r"Invalid value \[ for configuration allowlist\.pattern"):
        EnvironmentProvider().configure({"allowlist.pattern": "["})
