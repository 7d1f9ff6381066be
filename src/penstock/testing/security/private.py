"""Files with keys and passwords."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_OWNER_ONLY: Final = 0o600


def write_secret(file: Path, content: bytes) -> None:
    """Write a file that only this user can read."""
    file.unlink(missing_ok=True)  # so that a former file's permissions do not stay
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "wb") as opened:
        opened.write(content)
