"""The site that `make docs` builds: all links lead somewhere, and no page needs the network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"<(?:script|img|link)[^>]* (?:src|href)=\"(?:https?:)?//[^\"]*\"")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_site_has_no_broken_links_and_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="`make docs` and `make test-long` install Sphinx")
    site = tmp_path / "site"
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--builder",
        "html",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
    ]
    command += ["--doctree-dir", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(site)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = list(site.rglob("*.html"))
    assert site / "api" / "penstock.streams.html" in pages
    loaded = {found for page in pages for found in LOADED.findall(page.read_text())}
    assert not loaded
    styles = [path for path in site.rglob("*.css") if re.search(r"url\([\"']?(https?:)?//", path.read_text())]
    assert not styles
