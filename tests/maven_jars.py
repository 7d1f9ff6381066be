"""Jars that only tests use, fetched by the ordinary Maven client into a cache outside the repository."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FETCH_TIMEOUT_S = 600


def cache_root() -> Path:
    """The directory that keeps fetched jars between runs; PENSTOCK_TEST_CACHE overrides it."""
    default = Path.home() / ".cache" / "penstock"
    return Path(os.environ.get("PENSTOCK_TEST_CACHE", default))


def jars_of(pom: Path, name: str) -> Path:
    """The directory with every jar that *pom* depends on; skips the test if they cannot be fetched."""
    directory = cache_root() / name
    complete = directory / ".complete"
    if complete.exists():
        return directory
    for program in ("mvn", "java"):
        if shutil.which(program) is None:
            pytest.skip(f"{name}: {program} is not installed, so its jars cannot be fetched or run")
    directory.mkdir(parents=True, exist_ok=True)
    fetched = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={directory}"],
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if fetched.returncode != 0:
        reason = next((line for line in fetched.stdout.splitlines() if "ERROR" in line), "unknown error")
        pytest.skip(f"{name}: Maven Central is not reachable ({reason[:200]})")
    complete.touch()
    return directory
