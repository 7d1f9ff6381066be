"""The docs' generated parts, links and versions are current."""

import importlib.util
import re
from pathlib import Path

import pytest

from penstock.protocol.software import VERSION

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_generated_parts_are_current() -> None:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    stale = [path.name for path, text in generate.generated_documents() if path.read_text() != text]
    assert not stale, f"run `make docs`: {stale}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    broken = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not broken


def test_the_changelog_describes_this_version() -> None:
    versions = re.findall(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == VERSION


def test_image_tags_name_this_version() -> None:
    files = [*(ROOT / "deploy").rglob("*"), *PAGES]
    tags = {
        tag
        for file in files
        if file.is_file()
        for tag in re.findall(r"penstock:(\d[\w.]*)", file.read_text())
    }
    assert tags == {VERSION}
