"""A network namespace for a test, if the machine allows it."""

import os
import shutil
import subprocess
import sys

import pytest

IN_OWN_NETWORK = (
    *("env", "PENSTOCK_OWN_NETWORK=1", "unshare", "--net", "--map-root-user"),
    *("sh", "-c", 'ip link set lo up && exec "$@"', "sh"),
)
"""The command prefix for a private network: a loopback interface of its own, and the right to add others."""

HAS_OWN_NETWORK = "PENSTOCK_OWN_NETWORK" in os.environ


def is_possible() -> bool:
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run([*IN_OWN_NETWORK, "true"], capture_output=True, check=False).returncode == 0


def run_again_in_own_network(test: pytest.Item) -> None:
    """Run a test in a process with a network of its own, or skip it."""
    if not is_possible():
        pytest.skip("this machine gives a test no network of its own (unshare --net, ip)")
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        f"{test.path}::{test.name}",
    ]
    done = subprocess.run([*IN_OWN_NETWORK, *words], check=False, cwd=test.config.rootpath)
    assert done.returncode == 0, "it failed in its own network: see above"
