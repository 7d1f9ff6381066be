"""Values that a configuration takes from elsewhere: `${provider:[path:]key}` (KIP-297, KIP-421).

    config.providers=env
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    ssl.keystore.password=${env:STORE_PASSWORD}

Kafka's three providers are built in: values come from a properties file, from a directory with one file for
each value, or from the environment. The class only says which one; nothing is loaded. Only configurations of
this process are resolved, never one that arrives from another process: it could name any file.

Text whose provider is not among `config.providers` stays as it is, as in Kafka. Unlike in Kafka, a value that
a provider does not have is an error, because the text of the variable would become the password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

_PROVIDERS: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_VARIABLE: Final = re.compile(r"\$\{(?P<provider>[^}]*?):((?P<path>[^}]*?):)?(?P<key>[^}]*?)\}")

_Provider: TypeAlias = Callable[[str, str], str]
"""``(path, key) -> value``. Raises OSError, or ValueError with a reason that shows no value."""


class InvalidVariable(ValueError):
    """A provider cannot be used or does not have a value; ``name`` is that of the configuration."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name


def resolve(properties: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    """Replace the variables in all values, by the providers that the properties themselves configure.

    ``prefix`` begins the names of the providers' own configurations. Raises InvalidVariable.
    """
    aliases = [alias.strip() for alias in properties.get(prefix + _PROVIDERS, "").split(",") if alias.strip()]
    providers = {alias: _provider(f"{prefix}{_PROVIDERS}.{alias}", properties) for alias in aliases}
    if not providers:
        return dict(properties)
    return {
        name: value if configures_providers(name, prefix) else _replaced(name, value, providers)
        for name, value in properties.items()
    }


def configures_providers(name: str, prefix: str = "") -> bool:
    """Whether a configuration is about providers themselves."""
    return name == prefix + _PROVIDERS or name.startswith(f"{prefix}{_PROVIDERS}.")


def _replaced(name: str, value: str, providers: Mapping[str, _Provider]) -> str:
    def replacement(variable: re.Match[str]) -> str:
        provider = providers.get(variable["provider"])
        if provider is None:
            return variable[0]
        try:
            return provider(variable["path"] or "", variable["key"])
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidVariable(name, f"cannot resolve {variable[0]}: {reason}") from None

    return _VARIABLE.sub(replacement, value)


def _provider(name: str, properties: Mapping[str, str]) -> _Provider:
    """The provider whose configurations begin with ``name``. Raises InvalidVariable."""
    of_class = f"{name}.class"
    kind = properties.get(of_class, "").strip()
    if kind.removeprefix(_PACKAGE) not in _MAKERS:
        known = ", ".join(_PACKAGE + each for each in _MAKERS)
        raise InvalidVariable(of_class, f"found {kind or 'nothing'}, expected one of {known}")
    make, parameter = _MAKERS[kind.removeprefix(_PACKAGE)]
    of_parameter = f"{name}.param.{parameter}"
    try:
        return make(properties.get(of_parameter))
    except (ValueError, re.error) as error:
        raise InvalidVariable(of_parameter, str(error)) from None


def _of_files(allowed_paths: str | None) -> _Provider:
    return partial(_value_in_file, allowed_directories(allowed_paths))


def _value_in_file(allowed: list[Path] | None, path: str, key: str) -> str:
    import javaproperties

    with allowed_path(allowed, path).open(encoding="utf-8") as file:
        values = javaproperties.load(file)
    if key not in values:
        raise ValueError(f"the file has no value {key!r}")
    return str(values[key])


def _of_directories(allowed_paths: str | None) -> _Provider:
    return partial(_file_in_directory, allowed_directories(allowed_paths))


def _file_in_directory(allowed: list[Path] | None, path: str, key: str) -> str:
    if Path(key).name != key:
        raise ValueError("expected the name of a file in the directory")
    return (allowed_path(allowed, path) / key).read_text(encoding="utf-8")


def allowed_directories(allowed_paths: str | None) -> list[Path] | None:
    """Parse `allowed.paths`; None allows all. Raises ValueError."""
    if not allowed_paths:
        return None
    found = [_normal(path) for path in allowed_paths.split(",")]
    for path in found:
        if not path.is_absolute():
            raise ValueError(f"found {path}, expected absolute paths")
        if not path.exists():
            raise ValueError(f"{path} does not exist")
    return found


def allowed_path(allowed: list[Path] | None, path: str) -> Path:
    """The path, if it lies at or below one of those that are allowed. Raises ValueError."""
    if not path:
        raise ValueError("expected a path, as in ${provider:path:key}")
    normal = _normal(path)
    if allowed is not None and not any(normal.is_relative_to(each) for each in allowed):
        raise ValueError("the path is not among allowed.paths")
    return normal


def _normal(path: str) -> Path:
    return Path(os.path.normpath(path))


def _of_environment(allowlist_pattern: str | None) -> _Provider:
    allowlist = None if allowlist_pattern is None else re.compile(allowlist_pattern)
    return partial(_environment_variable, allowlist)


def _environment_variable(allowlist: re.Pattern[str] | None, path: str, key: str) -> str:
    if path:
        raise ValueError("variables of the environment have no path")
    if allowlist is not None and not allowlist.fullmatch(key):
        raise ValueError("the variable does not match allowlist.pattern")
    if key not in os.environ:
        raise ValueError("the variable is not set")
    return os.environ[key]


_MAKERS: Final[Mapping[str, tuple[Callable[[str | None], _Provider], str]]] = {
    "FileConfigProvider": (_of_files, "allowed.paths"),
    "DirectoryConfigProvider": (_of_directories, "allowed.paths"),
    "EnvVarConfigProvider": (_of_environment, "allowlist.pattern"),
}
"""The providers by the names of Kafka's classes, each with the name of its parameter."""
