"""The project's rules that a program can check; ARCHITECTURE.md gives the reasons."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
MODULES = sorted(SOURCE.rglob("*.py"))
KERNELS = sorted(SOURCE.rglob("*.pyx"))
MODULE_LINES_MAX = 700

# Each floor and the floors below it that it may import. Where spark and broker meet, they meet on the wire.
FLOORS: dict[str, set[str]] = {
    "protocol": set(),
    "storage": {"protocol"},
    "consensus": {"protocol"},
    "security": {"protocol"},
    "metadata": {"protocol", "consensus", "security"},
    "coordinators": {"protocol", "security"},
    "broker": {"protocol", "storage", "consensus", "security", "metadata", "coordinators"},
    "client": {"protocol"},
    "operations": {"protocol", "client"},
    # formats imports patterns that match in linear time from the coordinators, and nothing else of ours
    "registry": {"protocol", "coordinators", "client", "web"},
    "web": set(),
    "topology": {"protocol"},
    "arrow": {"protocol", "client", "registry"},
    "views": {"protocol", "client", "arrow", "topology", "web"},
    "spark": {"protocol", "client", "registry", "arrow", "topology", "views"},
    "streams": {"protocol", "topology", "views", "spark"},
    "sql": {"protocol", "client", "registry", "web", "topology", "arrow", "views", "spark", "streams"},
    # Cluster starts nodes as processes; the simulator runs them in process and inspects them
    "testing": {"protocol", "storage", "metadata", "broker"},
    "bench": {"testing"},
    "demo": {"protocol", "client", "arrow", "spark", "streams", "testing"},
    "cli": {
        *{"protocol", "storage", "metadata", "broker", "client", "arrow", "views", "spark", "streams"},
        *{"operations", "registry", "sql", "testing", "bench", "demo"},
    },
}


def imported_floors(path: Path) -> set[str]:
    """The packages of ours that a module imports, wherever in the file."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += (
                [f"{node.module}.{alias.name}" for alias in node.names]
                if node.module == "penstock"
                else [node.module]
            )
    return {name.split(".")[1] for name in names if name.startswith("penstock.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_run_downwards(path: Path) -> None:
    floor = path.relative_to(SOURCE).parts[0]
    if floor.endswith(".py"):
        return  # the __init__.py of the package
    assert floor in FLOORS, f"the folder {floor} has no place among the floors"
    above = imported_floors(path) - FLOORS[floor] - {floor}
    assert not above, f"{path.relative_to(ROOT)} imports {sorted(above)}: not below {floor}"


def test_relative_imports_are_not_used() -> None:
    relative = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


def test_file_names_of_tests_are_unique() -> None:
    """The folders of tests are no packages: pytest imports each file under its bare name."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert {name for name in names if names.count(name) > 1} == set()


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    names = {"utils", "util", "common", "misc", "helpers"}
    assert not [path for path in SOURCE.rglob("*") if path.stem in names]


def test_modules_answer_one_question() -> None:
    paths = MODULES + KERNELS
    long = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in paths}
    assert not {name: lines for name, lines in long.items() if lines > MODULE_LINES_MAX}


def test_every_compiled_kernel_has_its_twin_in_python() -> None:
    """`raw_bytes` serves only compiled kernels."""
    alone = [path.stem for path in KERNELS if not path.with_name(f"{path.stem}_py.py").exists()]
    assert alone == ["raw_bytes"]


def test_every_module_says_what_it_is() -> None:
    """This includes every package, by its `__init__.py`."""
    silent = [path for path in MODULES if ast.get_docstring(ast.parse(path.read_text())) is None]
    assert not [str(path.relative_to(ROOT)) for path in silent]


def test_docstrings_begin_with_what_they_describe() -> None:
    """Sentences that begin otherwise have no subject: "Of one query", "Who asks", "Raises KafkaError"."""
    headless = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {text.splitlines()[0]}"
        for path in MODULES
        for node, text in docstrings(ast.parse(path.read_text()))
        if text.split(maxsplit=1)[0] in {"Of", "Who", "What", "So", "Raises"}
    ]
    assert not headless, "\n".join(headless)


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.Expr, str]]:
    """Every docstring, those below assignments included."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node, node.value.value.strip()
