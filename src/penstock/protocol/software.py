"""The name and version with which Penstock's nodes and clients identify themselves in ApiVersions (KIP-511).

The build takes the version of the distribution from here (``pyproject.toml``), so it is written only once.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "penstock"
VERSION: Final = "0.2.0"
