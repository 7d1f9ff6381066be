"""Config providers that read files: properties in one file, or a directory with one file for each value."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from penstock.connect.definitions.config_types import invalid
from penstock.connect.errors import ConfigInvalid
from penstock.connect.providers.provider import ConfigData
from penstock.security.config_providers import allowed_directories, allowed_path

log = logging.getLogger(__name__)

ALLOWED_PATHS: Final = "allowed.paths"


class PathProvider(ABC):
    """The common parts: only paths at or below one of `allowed.paths` may be read, if there are any."""

    def __init__(self) -> None:
        self._allowed: list[Path] | None = None

    def configure(self, properties: Mapping[str, str]) -> None:
        paths = properties.get(ALLOWED_PATHS)
        try:
            self._allowed = allowed_directories(paths)
        except ValueError as error:
            raise invalid(ALLOWED_PATHS, paths, str(error)) from None

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        """Return the values that exist. A path that is not allowed has none, and is logged.

        Raises:
            ConfigInvalid: the path cannot be read.
        """
        if not path:
            return ConfigData({})
        try:
            allowed = allowed_path(self._allowed, path)
        except ValueError as error:
            log.warning("A config provider may not read a path path=%s reason=%s", path, error)
            return ConfigData({})
        return ConfigData(self.values(allowed, keys))

    @abstractmethod
    def values(self, path: Path, keys: Collection[str]) -> dict[str, str]:
        """Read the values of these keys.

        Raises:
            ConfigInvalid: the path cannot be read.
        """

    def close(self) -> None:
        """Nothing is held between calls."""


class FileProvider(PathProvider):
    """Reads the properties in a file (Kafka's FileConfigProvider)."""

    def values(self, path: Path, keys: Collection[str]) -> dict[str, str]:
        import javaproperties

        try:
            with path.open(encoding="utf-8") as file:
                found = javaproperties.load(file)
        except (OSError, ValueError) as error:
            raise ConfigInvalid(f"Could not read properties from file {path}") from error
        return {key: str(found[key]) for key in keys if key in found}


class DirectoryProvider(PathProvider):
    """Reads each value from the file of its name in a directory (Kafka's DirectoryConfigProvider)."""

    def values(self, path: Path, keys: Collection[str]) -> dict[str, str]:
        if not path.is_dir():
            log.warning("The path of a config provider is no directory path=%s", path)
            return {}
        return {
            key: content(path / key, key) for key in keys if Path(key).name == key and (path / key).is_file()
        }


def content(path: Path, key: str) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"Could not read file {path} for property {key}") from error
