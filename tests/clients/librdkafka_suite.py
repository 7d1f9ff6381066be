"""librdkafka's own integration tests against a Penstock node; writes their table into docs/compatibility.md.

    python tests/clients/librdkafka_suite.py              # everything that needs a broker
    python tests/clients/librdkafka_suite.py 0012 0045    # only these

The suite's source ships in the npm package @confluentinc/kafka-javascript. It is fetched and built in a cache
outside the repository (npm, a C compiler, make, and the headers of OpenSSL, zlib, zstd, SASL and curl), and
each test runs in a process of its own, never in quick mode. Tests flagged local and those on librdkafka's mock
cluster prove nothing about a broker and are left out.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from librdkafka_later import LATER

from maven_jars import cache_root
from penstock.testing import Cluster

PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
TARGET_RELEASE = "4.3.1"
TEST_TIMEOUT_S = 600
ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- librdkafka: generated -->", "<!-- librdkafka: end -->"

# What the suite's own cluster (scenarios/default.json) sets.
SCENARIO_CONFIG = {"num.partitions": "4", "offsets.topic.num.partitions": "50"}
NO_AUTO_CREATE_CONFIG = {**SCENARIO_CONFIG, "auto.create.topics.enable": "false"}
NO_AUTO_CREATE_TESTS = {"0111"}

KAFKA_TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
}


@dataclass(frozen=True)
class Outcome:
    """One test's result: PASSED, FAILED, SKIPPED (by the suite itself) or LATER."""

    name: str
    result: str
    seconds: float
    detail: str


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="*", help="numbers such as 0012; default: all that need a broker")
    parser.add_argument("--bootstrap", help="another broker, for comparison; the document is then left alone")
    arguments = parser.parse_args()
    tests_dir = prepare()
    names = [n for n in broker_tests(tests_dir) if not arguments.tests or n[:4] in arguments.tests]
    outcomes = run_all(tests_dir, names, arguments.bootstrap)
    print(summary(outcomes))
    if not arguments.tests and not arguments.bootstrap:
        write_document(outcomes)
    return any(outcome.result == "FAILED" for outcome in outcomes)


def prepare() -> Path:
    """Fetch and build the suite once; returns its tests directory."""
    home = cache_root() / "librdkafka-suite"
    tests_dir = home / "package" / "deps" / "librdkafka" / "tests"
    if (tests_dir / "test-runner").exists():
        return tests_dir
    home.mkdir(parents=True, exist_ok=True)
    source = tests_dir.parent
    steps: list[tuple[list[str], Path]] = [
        (["npm", "pack", "--silent", PACKAGE], home),
        (["sh", "-c", "tar xzf *.tgz"], home),
        (["sh", "-c", "chmod +x configure lds-gen.py mklove/*.sh; ./configure"], source),
        (["make", "-j2", "libs"], source),
        (["make", "-j2", "test-runner"], tests_dir),
    ]
    for command, directory in steps:
        print(f"== {' '.join(command)}", flush=True)
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}")
    return tests_dir


def broker_tests(tests_dir: Path) -> list[str]:
    """Names of the tests that talk to a real broker, in the suite's order."""
    source = (tests_dir / "test.c").read_text()
    table = source[
        source.index("struct test tests[]") : source.index(
            "/* Manual tests */", source.index("struct test tests[]")
        )
    ]
    found = re.findall(r"_TEST\((\w+),\s*(.*?)(?=_TEST\(|\Z)", table, flags=re.DOTALL)
    return [
        name
        for name, rest in found
        if not re.search(r"TEST_F_LOCAL|TEST_F_MANUAL", rest.split(")")[0])
        and "_mock" not in name
        and name != "0009_mock_cluster"
    ]


def run_all(tests_dir: Path, names: list[str], bootstrap: str | None) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for no_auto_create in (False, True):
        chosen = [n for n in names if (n[:4] in NO_AUTO_CREATE_TESTS) == no_auto_create]
        if not chosen:
            continue
        if bootstrap is not None:
            outcomes += [run_one(tests_dir, name, bootstrap, no_auto_create) for name in chosen]
            continue
        config = NO_AUTO_CREATE_CONFIG if no_auto_create else SCENARIO_CONFIG
        with Cluster(config) as cluster:
            for name in chosen:
                outcomes.append(run_one(tests_dir, name, cluster.bootstrap_servers, no_auto_create))
    return sorted(outcomes, key=lambda outcome: outcome.name)


def run_one(tests_dir: Path, name: str, bootstrap: str, no_auto_create: bool) -> Outcome:
    """Run one test; a test that needs a later capability of Penstock is not run."""
    if name[:4] in LATER:
        return Outcome(name, "LATER", 0, LATER[name[:4]])
    work = cache_root() / "librdkafka-runs"
    work.mkdir(parents=True, exist_ok=True)
    conf = work / "test.conf"
    conf.write_text(f"metadata.broker.list={bootstrap}\ntest.topic.random=true\n")
    log = work / f"{name}.log"
    command = [str(tests_dir / "test-runner"), "-p1", "-r", "-K"]
    if no_auto_create:
        command += ["-s", "noautocreate"]
    environment = {
        **os.environ,
        "TESTS": name,
        "LD_LIBRARY_PATH": f"{tests_dir.parent}/src:{tests_dir.parent}/src-cpp",  # not the system's librdkafka
        "RDKAFKA_TEST_CONF": str(conf),
        "TEST_KAFKA_VERSION": TARGET_RELEASE,
        "BROKERS": bootstrap,
        **kafka_path(work),
    }
    environment.pop("CI", None)  # the suite relaxes some checks there
    started = time.monotonic()
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                command,
                cwd=tests_dir,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=TEST_TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    seconds = time.monotonic() - started
    outcome = judge(name, code, seconds, log.read_text(errors="replace"))
    print(f"{outcome.result:8}{seconds:7.1f} s  {name}  {outcome.detail}", flush=True)
    return outcome


def judge(name: str, code: int, seconds: float, text: str) -> Outcome:
    """Read a finished run's log."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    skipped = re.search(rf"\|\s*{name}\s*\|\s*SKIPPED", plain)
    passed = re.search(rf"\|\s*{name}\s*\|\s*PASSED", plain)
    if passed and code == 0:
        return Outcome(name, "PASSED", seconds, "")
    if skipped and code == 0:
        reason = re.findall(rf"SKIPPING TEST:?\s*(.*)|{name}.*?SKIP\w*[: ]+(.*)", plain)
        return Outcome(name, "SKIPPED", seconds, next((a or b for a, b in reason), "by the suite itself"))
    if code == -1:
        return Outcome(name, "FAILED", seconds, f"not finished after {TEST_TIMEOUT_S} s")
    failure = re.search(r"(?:TEST FAILURE|failed:|Test failure)[^\n]*\n?(?:###[^\n]*\n)?([^\n]*)", plain)
    return Outcome(name, "FAILED", seconds, (failure[0] if failure else f"exit code {code}").strip()[:300])


def kafka_path(work: Path) -> dict[str, str]:
    """KAFKA_PATH with Kafka's command-line tools as small scripts, where the jars and a Java are there."""
    jars = cache_root() / f"kafka-{TARGET_RELEASE}"
    if not (jars / ".complete").exists() or shutil.which("java") is None:
        return {}
    programs = work / "kafka" / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for program, main_class in KAFKA_TOOLS.items():
        script = programs / program
        script.write_text(f'#!/bin/sh\nexec java -cp "{jars}/*" {main_class} "$@"\n')
        script.chmod(0o755)
    return {"KAFKA_PATH": str(programs.parent)}


def summary(outcomes: list[Outcome]) -> str:
    counts = {
        kind: sum(o.result == kind for o in outcomes) for kind in ("PASSED", "FAILED", "SKIPPED", "LATER")
    }
    return json.dumps({"librdkafka": PACKAGE, **{kind.lower(): count for kind, count in counts.items()}})


def write_document(outcomes: list[Outcome]) -> None:
    """Replace the generated part of docs/compatibility.md."""
    passed = sum(outcome.result == "PASSED" for outcome in outcomes)
    lines = [
        BEGIN,
        f"{passed} of the {len(outcomes)} tests that need a broker pass "
        f"(librdkafka of npm package `{PACKAGE}`, one node, not in quick mode).",
        "",
        "| test | result | why not yet |",
        "| --- | --- | --- |",
        *(f"| {o.name} | {o.result.lower()} | {o.detail.replace('|', '/')} |" for o in outcomes),
        END,
    ]
    text = DOCUMENT.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCUMENT.write_text(head + "\n".join(lines) + tail)


if __name__ == "__main__":
    sys.exit(main())
