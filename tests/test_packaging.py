"""The files that builds take and leave, in a copy of the package that has one module and no kernels."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

pytest.importorskip("setuptools", minversion="77")

ROOT = Path(__file__).parents[1]
MODULE = Path("src/penstock/protocol/software.py")
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])('dist')"
LINK = re.compile(r"\]\(([^)]+)\)")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    tree = tmp_path / "copy"
    (tree / MODULE.parent).mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", str(MODULE)):
        shutil.copyfile(ROOT / name, tree / name)
    for package in ("src/penstock", "src/penstock/protocol"):
        (tree / package / "__init__.py").touch()
    return tree


def build(tree: Path, what: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", BUILD, what],
        cwd=tree,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [built] = (tree / "dist").iterdir()
    return built


def wheel_of(tree: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(build(tree, "build_wheel"))


def metadata_of(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def test_a_wheel_holds_nothing_of_earlier_builds(copy: Path) -> None:
    left = copy / "build" / "lib" / "penstock" / "protocol" / "kernels"
    left.mkdir(parents=True)
    (left / "compaction.cpython-311-x86_64-linux-gnu.so").write_bytes(b"\x7fELF")
    (left.parent / "removed.py").touch()
    (copy / "build" / "docs").mkdir()
    with wheel_of(copy) as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == {"penstock/__init__.py", "penstock/protocol/__init__.py", "penstock/protocol/software.py"}
    assert (copy / "build" / "docs").exists()


def test_the_description_has_no_links_that_lead_nowhere(copy: Path) -> None:
    with wheel_of(copy) as wheel:
        metadata = metadata_of(wheel)
    text = metadata.get_payload()
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "# Penstock" in text
    assert [target for target in LINK.findall(text) if "://" not in target] == []


def test_links_of_the_description_lead_into_the_repository(copy: Path) -> None:
    project = copy / "pyproject.toml"
    urls = '[project.urls]\nSource = "https://example.org/penstock"\n'
    project.write_text(project.read_text().replace("[project.scripts]", f"{urls}\n[project.scripts]"))
    with wheel_of(copy) as wheel:
        links = set(LINK.findall(metadata_of(wheel).get_payload()))
    own = {target for target in LINK.findall((ROOT / "README.md").read_text()) if "://" not in target}
    assert own
    assert {f"https://example.org/penstock/blob/main/{target}" for target in own} <= links


def test_a_source_distribution_holds_what_lint_and_tests_read(copy: Path) -> None:
    linted = re.search(r"ruff check --no-cache (.*)", (ROOT / "Makefile").read_text())
    assert linted is not None
    folders = [name for name in linted[1].split() if name not in ("src", "setup.py")]
    files = {"Makefile", "deploy/some.yaml", *(f"{folder}/some.py" for folder in folders)}
    for name in files:
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).touch()
    (copy / "examples" / "some.cpython-311-x86_64-linux-gnu.so").touch()
    shutil.copyfile(ROOT / "MANIFEST.in", copy / "MANIFEST.in")
    with tarfile.open(build(copy, "build_sdist")) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert files <= found
    assert not [name for name in found if name.endswith(".so")]
