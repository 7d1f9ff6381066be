"""Runs of pytest inside a test, for the tests of what the suite adds to pytest."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent


def run_pytest(directory: Path, *options: str, rerun: str = "0") -> subprocess.CompletedProcess[str]:
    """Run pytest over the test files in a directory. Of all installed plugins it loads only xdist."""
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    (directory / "pytest.ini").touch()  # node ids are relative to its directory
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", *options],
        cwd=directory,
        env=os.environ
        | {
            "RERUN": rerun,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
