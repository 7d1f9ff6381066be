"""Configurations that take values from files, directories and the environment."""

import os
import random
from pathlib import Path

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.client.config import ClientConfig
from penstock.client.settings import ConfigError, resolved
from penstock.metadata.configs import BrokerConfig, InvalidConfig
from penstock.security.config_providers import InvalidVariable, resolve

PACKAGE = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": f"{PACKAGE}FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}DirectoryConfigProvider",
    "config.providers.env.class": f"{PACKAGE}EnvVarConfigProvider",
}
VALUES = repetitions("PENSTOCK_CONFIG_VALUES", gate=2_000, long=50_000)


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with `store.properties`, and with the file `token` as Kubernetes mounts secrets."""
    (tmp_path / "store.properties").write_text("password=s3cret\nescaped=a\\u00e4\\:b\ntwo\\ words=2\n")
    (tmp_path / "token").write_text("t0ken\n")
    monkeypatch.setenv("STORE_PASSWORD", "fr0m env")
    return tmp_path


def value_of(text: str, **providers: str) -> str:
    return resolve({**PROVIDERS, **{f"config.providers.{k}": v for k, v in providers.items()}, "x": text})[
        "x"
    ]


def test_values_of_each_provider(secrets: Path) -> None:
    assert value_of(f"${{file:{secrets}/store.properties:password}}") == "s3cret"
    assert value_of(f"<${{file:{secrets}/store.properties:escaped}}>") == "<aä:b>"
    assert value_of(f"${{dir:{secrets}:token}}") == "t0ken\n"
    assert value_of("${env:STORE_PASSWORD}, ${env:STORE_PASSWORD}") == "fr0m env, fr0m env"


@pytest.mark.parametrize("text", ["", "${", "${env}", "$env:HOME", "${vault:secret:x}", "${ENV:HOME}"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert value_of(text) == text


def test_without_providers_nothing_is_replaced() -> None:
    assert resolve({"x": "${env:HOME}"}) == {"x": "${env:HOME}"}


def test_values_are_not_resolved_again(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "${env:STORE_PASSWORD}")
    assert value_of("${env:OUTER}") == "${env:STORE_PASSWORD}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${env:NOT_SET_ANYWHERE}", "the variable is not set"),
        ("${env:some/path:HOME}", "variables of the environment have no path"),
        ("${file:password}", "expected a path, as in"),
        ("${file:SECRETS/missing.properties:password}", "No such file or directory"),
        ("${file:SECRETS/store.properties:passwort}", "the file has no value 'passwort'"),
        ("${dir:SECRETS:missing}", "No such file or directory"),
        ("${dir:SECRETS/sub:../token}", "expected the name of a file in the directory"),
        ("${dir:SECRETS:..}", "Is a directory"),
    ],
)
def test_a_value_that_a_provider_does_not_have_is_an_error(secrets: Path, text: str, reason: str) -> None:
    text = text.replace("SECRETS", str(secrets))
    with pytest.raises(InvalidVariable) as raised:
        value_of(text)
    assert raised.value.name == "x"
    assert str(raised.value).startswith(f"x: cannot resolve {text}: {reason}")


def test_paths_and_variables_may_be_limited(secrets: Path) -> None:
    allowed = {"file.param.allowed.paths": f"{secrets}/sub,{secrets}/store.properties"}
    (secrets / "sub").mkdir()
    assert value_of(f"${{file:{secrets}/sub/../store.properties:password}}", **allowed) == "s3cret"
    for path in (f"{secrets}/sub/../token", f"{secrets}/sub2", "store.properties"):
        with pytest.raises(InvalidVariable, match=r"the path is not among allowed\.paths"):
            value_of(f"${{file:{path}:password}}", **allowed)
    pattern = {"env.param.allowlist.pattern": "STORE_.*"}
    assert value_of("${env:STORE_PASSWORD}", **pattern) == "fr0m env"
    with pytest.raises(InvalidVariable, match=r"does not match allowlist\.pattern"):
        value_of("${env:HOME}", **pattern)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "env.class",
            "com.example.Vault",
            "found com.example.Vault, expected one of org.apache.kafka.",
        ),
        ("env.class", "", "found nothing, expected one of org.apache.kafka."),
        ("file.param.allowed.paths", "relative/path", "found relative/path, expected absolute paths"),
        ("file.param.allowed.paths", "/no/such/place", "/no/such/place does not exist"),
        ("env.param.allowlist.pattern", "(", "missing )"),
    ],
)
def test_a_provider_that_cannot_be_used_is_an_error(name: str, value: str, reason: str) -> None:
    with pytest.raises(InvalidVariable) as raised:
        value_of("", **{name: value})
    assert str(raised.value).startswith(f"config.providers.{name}: {reason}")


def test_a_node_resolves_its_file_but_no_dynamic_config(secrets: Path) -> None:
    password = f"${{file:{secrets}/store.properties:password}}"
    config = BrokerConfig.single_node({**PROVIDERS, "log.dirs": "/d", "ssl.key.password": password})
    assert config["ssl.key.password"] == "s3cret"
    assert config.with_dynamic({}, {"ssl.key.password": password})["ssl.key.password"] == password
    with pytest.raises(InvalidConfig, match=r"ssl\.key\.password: cannot resolve .* the variable is not set"):
        BrokerConfig.single_node({**PROVIDERS, "log.dirs": "/d", "ssl.key.password": "${env:NOT_SET}"})


def test_clients_resolve_their_properties_and_drop_those_of_providers(secrets: Path) -> None:
    given = {**PROVIDERS, "bootstrap.servers": "h:1", "client.id": "${env:STORE_PASSWORD}"}
    found = resolved(given)
    assert found == {"bootstrap.servers": "h:1", "client.id": "fr0m env"}
    assert ClientConfig.from_properties(found).client_id == "fr0m env"
    with pytest.raises(ConfigError, match=r"^client\.id: cannot resolve"):
        resolved({**given, "client.id": "${env:NOT_SET}"})


@pytest.mark.kafka
@pytest.mark.longer
@pytest.mark.timeout(600)
def test_random_values_as_kafka_resolves_them(
    kafka_libs: Path, secrets: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    pieces = [
        *("${", "}", ":", "$", "{", "env", "file", "dir", "STORE_PASSWORD", "token", "x", "\n", "ä", ""),
        *("${env:STORE_PASSWORD}", "${env:NOT_SET}", f"${{dir:{secrets}:token}}", "${vault:a:b}"),
        *(f"${{file:{secrets}/store.properties:{key}}}" for key in ("password", "escaped", "two words")),
    ]
    values = ["".join(rng.choices(pieces, k=rng.randint(1, 8))) for _ in range(VALUES)]
    scratch = tmp_path_factory.mktemp("java")
    (scratch / "values").write_text("\n".join(value.encode().hex() for value in values))
    source = Path(__file__).with_name("KafkaConfigProviders.java")
    answers = run_java(kafka_libs, str(source), str(scratch / "values"), timeout_s=500).splitlines()
    equal = 0
    for value, answer in zip(values, answers, strict=True):
        if answer == "refused":
            with pytest.raises(InvalidVariable):
                value_of(value)
            continue
        theirs = bytes.fromhex(answer).decode()
        try:
            assert value_of(value) == theirs, repr(value)
            equal += theirs != value
        except InvalidVariable as error:
            # Kafka leaves such a variable as it is.
            variable = str(error).removeprefix("x: cannot resolve ").rpartition("}: ")[0] + "}"
            assert variable in theirs, repr(value)
    assert equal > VALUES // 10, f"only {equal} values had variables that both resolve"
