"""Tests that ship in Go modules, which Go fetches and builds in a cache outside the repository."""

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from suites_table import Counts

from maven_jars import cache_root

RESULT = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+) \((.*)s\)", re.MULTILINE)


def build_tests(module: str, package: str = ".", tags: Sequence[str] = ()) -> Path:
    """Build the tests of a package of a module (PATH@VERSION) as a program, to run in its `source_of`."""
    program = _home(module) / "tests"
    if not program.exists():
        command = ["go", "test", "-c", "-tags", ",".join(tags), "-o", str(program), package]
        subprocess.run(command, cwd=source_of(module), env=_environment(module), check=True)
    return program


def build_program(module: str, package: str) -> Path:
    """Build a program of a module."""
    path, _, version = module.partition("@")
    program = _home(module) / package.rpartition("/")[2]
    if not program.exists():
        environment = {**_environment(module), "GOBIN": str(_home(module))}
        command = ["go", "install", f"{path}/{package}@{version}"]
        subprocess.run(command, cwd=_home(module), env=environment, check=True)
    return program


def source_of(module: str) -> Path:
    """The directory with a module's source."""
    command = ["go", "mod", "download", "-json", module]
    described = subprocess.check_output(command, cwd=_home(module), env=_environment(module))
    return Path(json.loads(described)["Dir"])


def run_tests(
    program: Path,
    pattern: str,
    timeout_s: int,
    log_file: Path,
    environment: Mapping[str, str],
    cwd: Path,
    left_out: str = "",
) -> bool:
    """Run the tests whose names match and report on them; return whether all completed and passed."""
    command = [str(program), f"-test.run={pattern}", "-test.v", f"-test.timeout={timeout_s}s"]
    if left_out:
        command.append(f"-test.skip={left_out}")
    with log_file.open("wb") as output:
        done = subprocess.run(
            command, env={**os.environ, **environment}, cwd=cwd, stdout=output, stderr=output, check=False
        )
    log = log_file.read_text(errors="replace")
    for result, name, seconds in RESULT.findall(log):
        print(f"{result} {float(seconds):8.1f} s  {name}")
    for line in re.findall(r"^panic: .*|.*sendErr.*", log, flags=re.MULTILINE)[:20]:
        print(line.strip())
    print(json.dumps({"finished": done.returncode == 0, **counts_of(log)._asdict()}))
    return done.returncode == 0


def counts_of(log: str) -> Counts:
    """Count the results of whole tests, not those of their parts."""
    whole = [result for result, name, _ in RESULT.findall(log) if "/" not in name]
    return Counts(*(whole.count(kind) for kind in ("PASS", "FAIL", "SKIP")))


def _home(module: str) -> Path:
    home = cache_root() / "go-tests" / module.partition("@")[0].replace("/", "+")
    home.mkdir(parents=True, exist_ok=True)
    return home


def _environment(module: str) -> dict[str, str]:
    return {**os.environ, "GOMODCACHE": str(_home(module) / "modules"), "GOFLAGS": "-modcacherw"}
