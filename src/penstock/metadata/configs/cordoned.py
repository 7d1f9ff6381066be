"""``cordoned.log.dirs`` (KIP-1066): log directories that keep their replicas and take no new ones.

An operator cordons a directory before replacing a disk, or all directories of a broker before removing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.metadata.configs.definition import InvalidConfig

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
ALL: Final = "*"


def cordoned_paths(entries: Sequence[str], log_dirs: Sequence[Path]) -> list[Path]:
    """The directories that the entries name. Raises InvalidConfig if one is not in ``log_dirs``."""
    if ALL in entries:
        if len(entries) > 1:
            raise InvalidConfig(
                CORDONED_LOG_DIRS,
                f"When {CORDONED_LOG_DIRS} is set to {ALL}, it must not contain other values",
            )
        return list(log_dirs)
    for entry in entries:
        if Path(entry) not in log_dirs:
            raise InvalidConfig(
                CORDONED_LOG_DIRS,
                f"Invalid value {','.join(entries)} for configuration {CORDONED_LOG_DIRS}: Invalid entry in "
                f"{CORDONED_LOG_DIRS}: {entry}. All cordoned log dirs must be entries of log.dirs or "
                "log.dir.",
            )
    return [Path(entry) for entry in entries]
