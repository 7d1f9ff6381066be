"""The project's rules that a program can check; ARCHITECTURE.md gives the reasons."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
MODULES = sorted(SOURCE.rglob("*.py"))
KERNELS = sorted(SOURCE.rglob("*.pyx"))
MODULE_LINES_MAX = 700
LOADED_BY_NAME = ("penstock.broker.api.",)  # broker/api_table imports every module of this folder

# Each floor and the floors below it that it may import. Where spark and broker meet, they meet on the wire.
FLOORS: dict[str, set[str]] = {
    "errors": set(),  # the root of all exceptions: every floor stands on it
    "extras": set(),  # the error for missing packages: every floor may raise it
    "protocol": set(),
    "security": {"protocol", "patterns"},
    "storage": {"protocol"},
    "consensus": {"protocol"},
    "metadata": {"protocol", "consensus", "security"},
    "java": set(),
    "patterns": set(),
    "monitoring": {"protocol", "security"},
    "coordinators": {"protocol", "java", "patterns"},
    "broker": {
        *{"protocol", "storage", "consensus", "metadata", "coordinators", "java"},
        *{"monitoring", "security"},
    },
    "client": {"protocol", "security"},
    "operations": {"protocol", "client"},
    "registry": {"protocol", "java", "patterns", "client", "web", "monitoring", "security"},
    "web": {"processes", "security"},
    "topology": {"protocol"},
    "arrow": {"protocol", "client", "registry"},
    "views": {"protocol", "client", "arrow", "topology", "web", "monitoring", "security"},
    "spark": {"protocol", "client", "registry", "arrow", "topology", "views", "monitoring", "security"},
    "streams": {"protocol", "topology", "views", "spark"},
    "sql": {
        *{"protocol", "client", "registry", "web", "topology", "arrow", "views", "spark", "streams"},
        *{"connect", "java", "monitoring", "security"},
    },
    "connect": {"protocol", "java", "client", "registry", "arrow", "web", "monitoring", "security"},
    "mirroring": {"client", "connect", "spark", "processes"},
    "processes": set(),
    # Cluster plans nodes and starts them as processes; the simulator runs them in process and inspects them
    "testing": {"protocol", "security", "storage", "metadata", "broker", "client", "processes"},
    "bench": {"testing"},
    "demo": {"protocol", "client", "arrow", "spark", "streams", "testing", "mirroring", "sql", "topology"},
    "cli": {
        *{"protocol", "storage", "metadata", "broker", "client", "topology", "arrow", "views", "spark"},
        *{"streams", "operations", "registry", "sql", "connect", "processes", "testing", "bench", "demo"},
        *{"security", "mirroring"},
    },
}

# The rooms of a floor, and the rooms beside them that each may import. Modules of the floor that lie in no
# room build the rooms and may import all.
ROOMS: dict[str, dict[str, set[str]]] = {
    "broker": {
        "tls": set(),
        "network": {"quotas", "tls"},
        "sasl": {"network", "peers"},
        "peers": {"tls"},
        "setup": {"network", "peers", "quotas"},
        "quorum": {"network", "peers", "setup"},
        "control": {"network", "peers", "setup", "quorum", "tls"},
        "partitions": {"network", "peers", "setup"},
        "quotas": set(),
        "following": {"peers", "partitions"},
        "reading": {"network", "partitions", "following", "quotas"},
        "coordination": {"network", "peers", "setup", "partitions", "following", "control"},
        "metrics": {
            *{"network", "quorum", "control", "partitions", "quotas", "following", "reading"},
            *{"coordination", "sasl", "tls"},
        },
        "api": {
            *{"network", "setup", "quorum", "control", "partitions", "quotas", "reading", "coordination"}
        },
    },
    "storage": {
        "names": set(),
        "errors": set(),
        "config": set(),
        "disk": {"names"},
        "segments": {"config", "disk", "names"},
        "producers": {"disk", "errors", "names"},
        "reading": {"disk", "errors", "names", "segments"},
        "partition": {"config", "disk", "errors", "names", "producers", "reading", "segments"},
        "compaction": {"config", "disk", "errors", "names", "partition", "producers", "segments"},
        "directories": {"compaction", "config", "disk", "errors", "names", "partition"},
        "inspection": {"disk", "names", "partition", "producers", "segments"},
    },
    "security": {
        "acls": set(),
        "access": {"permissions", "tls", "tokens", "oauth"},
        "authorizer": {"acls"},
        "permissions": {"acls", "authorizer"},
        "scram": set(),
        "config_providers": set(),
        "tls": set(),
        "tokens": set(),
        "sasl": {"scram", "tokens"},
        "oauth": {"sasl", "tls", "tokens"},
        "kerberos": {"sasl"},
    },
    "client": {
        "settings": set(),
        "errors": set(),
        "batches": set(),
        "security": {"settings"},
        "config": {"security", "settings"},
        "connections": {"config", "errors", "security"},
        "groups": {"config", "connections", "errors"},
        "admin": {"config", "connections", "errors"},
        "reading": {"batches", "config", "connections", "errors", "settings"},
        "producing": {"batches", "connections", "errors", "groups", "settings"},
        "consuming": {"batches", "config", "connections", "errors", "groups", "reading", "settings"},
    },
    "topology": {
        "records": set(),
        "errors": {"records"},
        "serdes": {"errors"},
        "windows": {"errors"},
        "vectorised": {"errors"},
        "stores": {"errors", "records", "serdes"},
        "context": {"errors", "records", "stores"},
        "collected": {"context", "records", "stores", "vectorised"},
        "graph": {"collected", "context", "errors", "records", "serdes", "stores"},
        "operators": {
            *{"collected", "context", "errors", "graph", "records", "serdes", "stores", "vectorised"}
        },
        "joins": {*{"context", "errors", "graph", "operators", "records", "serdes", "stores", "windows"}},
        "aggregates": {
            *{"collected", "context", "errors", "operators", "records", "serdes", "stores", "vectorised"},
            "windows",
        },
        "tasks": {"collected", "context", "errors", "graph", "records", "serdes", "stores"},
        "plans": {"graph", "operators", "serdes"},
    },
    "spark": {
        "options": set(),
        "launching": set(),
        "workers": set(),
        "source": {"options", "workers"},
        "sink": {"options", "workers"},
        "datasource": {"launching", "source", "sink", "workers"},
        "changes": set(),
        "progress": {"source"},
        "observing": {"progress"},
        "streams": {"launching", "workers", "source", "sink", "progress", "observing"},
        "hosting": {"launching", "workers", "source", "sink", "streams", "observing"},
    },
    "spark/changes": {
        "row_types": set(),
        "targets": {"row_types"},
    },
    "spark/streams": {
        "blocks": set(),
        "planning": {"blocks"},
        "state": {"blocks"},
        "tasks": {"blocks", "planning", "state"},
        "query": {"blocks", "planning", "state", "tasks"},
        "running": {"planning", "query"},
        "stages": {"blocks", "planning", "query", "running"},
    },
    "sql": {
        "language": set(),
        "functions": {"language"},
        "catalog": {"language", "functions"},
        "formats": {"language", "catalog"},
        "analysis": {"language", "functions", "catalog"},
        "evaluation": {"language", "functions", "catalog", "formats", "analysis"},
        "planning": {"language", "catalog", "formats", "analysis", "evaluation"},
        "engine": {"language", "functions", "catalog", "formats", "analysis", "evaluation", "planning"},
        "server": {"language", "formats", "engine"},
    },
    "connect": {
        "errors": set(),
        "data": {"errors"},
        "definitions": {"errors"},
        "connector": {"errors", "data", "definitions"},
        "task_id": set(),
        "group": {"errors", "task_id"},
        "stores": {"errors", "task_id", "data"},
        "converters": {"errors", "data", "definitions"},
        "transforms": {"errors", "data", "definitions"},
        "tasks": {
            *("errors", "data", "definitions", "connector", "converters", "configs", "task_id", "stores"),
        },
        "connectors": {"errors", "data", "definitions", "connector", "converters"},
        "cdc": {"errors", "data", "definitions", "connector"},
        "plugins": {"errors", "definitions", "connector"},
        "providers": {"errors", "definitions", "plugins"},
        "configs": {"errors", "definitions", "group", "plugins"},
        "validation": {"errors", "definitions", "connector", "plugins", "configs"},
        "herding": {"errors", "task_id", "group", "stores", "providers", "validation"},
        "rest": {"errors", "task_id", "group", "stores", "configs", "herding"},
        "client": {"errors", "herding"},
        "worker": {
            *("errors", "task_id", "connector", "connectors", "converters", "transforms", "group"),
            *("stores", "tasks"),
            *("plugins", "providers", "configs", "validation", "herding", "rest"),
        },
        "jvm": {"errors", "client", "worker"},
    },
    "connect/connectors/lake": {
        "bad_records": set(),
        "columns": set(),
        "tables": {"bad_records", "columns"},
        "delta": {"columns", "tables"},
        "iceberg": {"columns", "tables"},
        "objects": {"bad_records", "columns"},
    },
    "connect/tasks": {
        "closing": set(),
        "settings": set(),
        "metrics": set(),
        "tolerance": {"metrics", "settings"},
        "parts": {"closing", "settings"},
        "sending": set(),
        "conversion": {"parts", "sending", "tolerance"},
        "error_reports": {"conversion", "metrics", "parts", "sending", "settings", "tolerance"},
        "runner": {"metrics"},
        "sources": {"closing", "conversion", "metrics", "parts", "sending", "settings", "tolerance"},
        "sinks": {"closing", "conversion", "metrics", "parts", "settings", "tolerance"},
        "connector_runner": {"runner", "sources"},
        "harness": {
            *{"closing", "conversion", "metrics", "parts", "sending", "settings", "sinks", "sources"},
            "tolerance",
        },
    },
    "sql/engine": {
        "ground": set(),
        "running": {"ground"},
        "changing": {"ground", "running"},
        "reading": {"ground", "running"},
        "showing": {"ground", "running", "connectors"},
        "connectors": {"ground"},
    },
}

# Imports that close a circle, by the last two parts of the modules' names. The first is the public API's own:
# a stream becomes a table, and a table a stream. All others are only for types, where one class was split.
CLOSING: dict[str, set[str]] = {
    "dsl.table": {"dsl.stream"},
    "kernels.column_encoder_py": {"protocol.columns"},
    "consensus.membership": {"consensus.raft"},
    "consensus.polling": {"consensus.raft"},
    "consensus.replication": {"consensus.raft"},
    "consensus.voting": {"consensus.raft"},
    "configs.cleaner": {"configs.broker_config"},
    "configs.roles": {"configs.broker_config"},
    "configs.support": {"configs.broker_config"},
    "simulator.workers": {"simulator.loop"},
    "simulator.directory_faults": {"simulator.faults"},
    "sql_shell.commands": {"sql_shell.session"},
}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in MODULES}


@cache
def imports(name: str) -> set[str]:
    """The modules of ours that a module imports, wherever in the file and if only for types."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(PATHS[name].read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {each if each in PATHS else node.module for each in full}
    return names & PATHS.keys()


@pytest.mark.parametrize("name", PATHS)
def test_imports_run_downwards(name: str) -> None:
    floor = floor_of(name)
    if floor in ("", "__main__"):
        return  # the package itself, and the command
    assert floor in FLOORS, f"the folder {floor} has no place among the floors"
    above = {floor_of(other) for other in imports(name)} - FLOORS[floor] - {floor, "errors", "extras", ""}
    assert not above, f"{name} imports {sorted(above)}: not below {floor}"


def floor_of(name: str) -> str:
    return name.partition(".")[2].split(".")[0]


@pytest.mark.parametrize("floor", ROOMS)
def test_rooms_of_a_floor_import_downwards(floor: str) -> None:
    rooms = ROOMS[floor]
    folders = {path.name for path in (SOURCE / floor).iterdir() if (path / "__init__.py").exists()}
    assert folders <= rooms.keys(), "every room of the floor has its place in ROOMS"
    wrong = []
    for name in PATHS:
        room = room_of(name, floor)
        if room is not None:
            above = {room_of(other, floor) for other in imports(name)} - rooms[room] - {room, None}
            wrong += [f"{name} imports the room {other}" for other in above]
    assert not wrong, "\n".join(wrong)


def room_of(name: str, floor: str) -> str | None:
    """The room in which a module lies; None for the modules of other floors, and for those in no room."""
    prefix = f"penstock.{floor.replace('/', '.')}."
    room = name.removeprefix(prefix).split(".")[0]
    return room if name.startswith(prefix) and room in ROOMS[floor] else None


def test_no_modules_import_each_other() -> None:
    """This includes imports for types: an interface stands beside who needs it."""
    graph = {
        name: {other for other in imports(name) if end(other) not in CLOSING.get(end(name), ())} - {name}
        for name in PATHS
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def end(name: str) -> str:
    """The last two parts of a module's name."""
    return ".".join(name.split(".")[-2:])


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


def test_every_module_is_used() -> None:
    """A module is imported, named in a string, an entry point, or run by `python -m`; tests don't count."""
    trees = {name: ast.parse(path.read_text()) for name, path in PATHS.items()}
    used = {name for module, tree in trees.items() for name in mentioned_modules(tree) if name != module}
    entry_points = (ROOT / "pyproject.toml").read_text()
    assert not [
        path
        for path, (module, tree) in zip(MODULES, trees.items(), strict=True)
        if module not in used
        and path.name != "__init__.py"
        and not module.startswith(LOADED_BY_NAME)
        and f'"{module}"' not in entry_points
        and not is_program(tree)
    ]


def mentioned_modules(tree: ast.Module) -> Iterator[str]:
    """What a module imports or names in a string, such as "penstock.cli.main" or "penstock.cli.main:app"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def is_program(tree: ast.Module) -> bool:
    """Whether a module runs something under `if __name__ == "__main__"`."""
    return any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in tree.body)


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
