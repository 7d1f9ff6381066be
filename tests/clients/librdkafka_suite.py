"""librdkafka's own integration tests against a Penstock node; writes their table into docs/compatibility.md.

    python tests/clients/librdkafka_suite.py              # everything that needs a broker
    python tests/clients/librdkafka_suite.py 0012 0045    # only these; the document is left alone
    python tests/clients/librdkafka_suite.py --update 0012  # these rows of the document anew

The suite's source ships in the npm package @confluentinc/kafka-javascript. It is fetched and built in a
cache outside the repository (npm, a C compiler, make, and the headers of OpenSSL, zlib, zstd, SASL and curl),
and each test runs in a process of its own, never in quick mode. One line of it is changed: topics are created
with one replica where tests ask for three, which none of them counts. Tests flagged local and those on
librdkafka's mock cluster prove nothing about a broker and are left out.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import Empty, SimpleQueue

sys.path.insert(0, str(Path(__file__).parents[1]))
from librdkafka_later import LATER, Later

from maven_jars import cache_root
from penstock.testing import Cluster

PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
TARGET_RELEASE = "4.3.1"
TEST_TIMEOUT_S = 1200  # 0113 takes ten minutes
ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- librdkafka: generated -->", "<!-- librdkafka: end -->"

# What the suite's own clusters (scenarios/*.json) set; the rest is Kafka's default.
DEFAULT_SCENARIO = {
    "num.partitions": "4",
    "offsets.topic.num.partitions": "50",
    "group.initial.rebalance.delay.ms": "3000",
}
SCENARIOS = {
    "default": DEFAULT_SCENARIO,
    "noautocreate": {**DEFAULT_SCENARIO, "auto.create.topics.enable": "false"},
}

KNOWN_ISSUE = "flagged by the suite as a known issue of its own"

REPLICAS = "rd_kafka_NewTopic_new(topicname, partition_cnt, replication_factor,"
ONE_REPLICA = "rd_kafka_NewTopic_new(topicname, partition_cnt, 1,"

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
    parser.add_argument("--jobs", type=int, default=3, help="tests at a time, each on a node of its own")
    parser.add_argument("--update", action="store_true", help="put named tests' results into the document")
    arguments = parser.parse_args()
    tests_dir = prepare()
    tests = [t for t in broker_tests(tests_dir) if not arguments.tests or t.name[:4] in arguments.tests]
    outcomes = run_all(tests_dir, tests, arguments.bootstrap, arguments.jobs)
    print(summary(outcomes))
    if arguments.update:
        write_document([*documented(except_for=outcomes), *outcomes])
    elif not arguments.tests and not arguments.bootstrap:
        write_document(outcomes)
    return any(outcome.result == "FAILED" for outcome in outcomes)


def prepare() -> Path:
    """Fetch and build the suite once; returns its tests directory."""
    home = cache_root() / "librdkafka-suite"
    tests_dir = home / "package" / "deps" / "librdkafka" / "tests"
    source = tests_dir.parent
    if not (tests_dir / "test-runner").exists():
        home.mkdir(parents=True, exist_ok=True)
        run_steps(
            (["npm", "pack", "--silent", PACKAGE], home),
            (["sh", "-c", "tar xzf *.tgz"], home),
            (["sh", "-c", "chmod +x configure lds-gen.py mklove/*.sh; ./configure"], source),
            (["make", "-j2", "libs"], source),
        )
    framework = (tests_dir / "test.c").read_text()
    if ONE_REPLICA not in framework:
        assert REPLICAS in framework
        (tests_dir / "test.c").write_text(framework.replace(REPLICAS, ONE_REPLICA))
        run_steps((["make", "-j2", "test-runner"], tests_dir))
    return tests_dir


def run_steps(*steps: tuple[list[str], Path]) -> None:
    """Run each command in its directory."""
    for command, directory in steps:
        print(f"== {' '.join(command)}", flush=True)
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}")


@dataclass(frozen=True, order=True)
class Test:
    """A test of the suite that talks to a real broker, and the scenario it asks for."""

    name: str
    scenario: str

    @property
    def unit(self) -> tuple[str, str]:
        """Tests that share a number and a scenario run in one process."""
        return self.name[:4], self.scenario


def broker_tests(tests_dir: Path) -> list[Test]:
    """Read off the suite's own table."""
    source = (tests_dir / "test.c").read_text()
    begin = source.index("struct test tests[]")
    table = source[begin : source.index("/* Manual tests */", begin)]
    found = re.findall(r"_TEST\((\w+),\s*(.*?)(?=_TEST\(|\Z)", table, flags=re.DOTALL)
    tests = []
    for name, rest in found:
        scenario = re.search(r'\.scenario = "(\w+)"', rest)
        local = "TEST_F_LOCAL" in rest.split(")")[0]
        if not local and "_mock" not in name:
            tests.append(Test(name, scenario[1] if scenario else "default"))
    return tests


def run_all(tests_dir: Path, tests: list[Test], bootstrap: str | None, jobs: int) -> list[Outcome]:
    """Run the tests, each job against a node of its own: most tests wait more than they work."""
    queue: SimpleQueue[list[Test]] = SimpleQueue()
    for _, family in groupby(
        sorted(tests, key=lambda test: (*test.unit, test.name)), key=lambda test: test.unit
    ):
        queue.put(list(family))
    outcomes: list[Outcome] = []

    def work() -> None:
        with Nodes(bootstrap) as nodes:
            while True:
                try:
                    family = queue.get_nowait()
                except Empty:
                    return
                outcomes.extend(run_family(tests_dir, family, nodes))

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work) for _ in range(jobs)]:
            done.result()
    return sorted(outcomes, key=lambda outcome: outcome.name)


class Nodes(ExitStack):
    """The nodes of one job: one for nearly all tests, one that creates no topics by itself."""

    def __init__(self, bootstrap: str | None) -> None:
        super().__init__()
        self._bootstrap = bootstrap
        self._running: dict[str, Cluster] = {}

    def address_for(self, scenario: str) -> str:
        """Where to run a test; starts the node at its first use."""
        if self._bootstrap is not None:
            return self._bootstrap
        if scenario not in self._running:
            self._running[scenario] = self.enter_context(Cluster(SCENARIOS[scenario]))
        return self._running[scenario].bootstrap_servers


def run_family(tests_dir: Path, family: list[Test], nodes: Nodes) -> list[Outcome]:
    """Run the tests of one unit; of those that need a later capability, the subtests that don't."""
    number, scenario = family[0].unit
    address = nodes.address_for(scenario)
    later = LATER.get(number)
    if later is None:
        text, ending = run_unit(tests_dir, number, scenario, address)
        outcomes = [judge(test.name, text, ending) for test in family]
    else:
        passed = [s for s in later.subtests if subtest_passes(tests_dir, family[0], address, s)]
        outcomes = [judge_later(test.name, later, passed) for test in family]
    for outcome in outcomes:
        print(f"{outcome.result:8}{outcome.seconds:7.1f} s  {outcome.name}  {outcome.detail}", flush=True)
    return outcomes


def run_unit(
    tests_dir: Path, number: str, scenario: str, bootstrap: str, subtest: str | None = None
) -> tuple[str, str]:
    """Run the tests of one number in a process; returns its log and how it ended."""
    work = cache_root() / "librdkafka-runs"
    work.mkdir(parents=True, exist_ok=True)
    label = "-".join([number, scenario, *re.findall(r"\w+", subtest or "")])
    conf, log = work / f"{label}.conf", work / f"{label}.log"
    conf.write_text(f"metadata.broker.list={bootstrap}\ntest.topic.random=true\n")
    command = [str(tests_dir / "test-runner"), "-p1", "-L", "-s", scenario]
    environment = {
        **os.environ,
        "TESTS": number,
        "LD_LIBRARY_PATH": f"{tests_dir.parent}/src:{tests_dir.parent}/src-cpp",  # its own, not the system's
        "RDKAFKA_TEST_CONF": str(conf),
        "TEST_KAFKA_VERSION": TARGET_RELEASE,
        "BROKERS": bootstrap,
        **kafka_path(work),
    }
    if subtest is not None:
        environment["SUBTESTS"] = subtest
    environment.pop("CI", None)  # the suite relaxes some checks there
    with log.open("wb") as output:
        runner = subprocess.Popen(command, cwd=tests_dir, env=environment, stdout=output, stderr=output)
        try:
            ending = f"exit code {runner.wait(TEST_TIMEOUT_S)}"
        except subprocess.TimeoutExpired:
            runner.kill()
            ending = f"not finished after {TEST_TIMEOUT_S} s"
    return re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace")), ending


def subtest_passes(tests_dir: Path, test: Test, bootstrap: str, subtest: str) -> bool:
    """Whether every subtest whose title holds the text ran and passed."""
    text, _ = run_unit(tests_dir, *test.unit, bootstrap, subtest)
    titles = re.findall(r"\[ (\w+:\d+.*) \]$", text, flags=re.MULTILINE)
    passed = [title.rpartition(": PASS (")[0] for title in titles if ": PASS (" in title]
    begun = [title for title in titles if ": PASS (" not in title]
    return bool(begun) and sorted(begun) == sorted(passed)


def judge_later(name: str, later: Later, passed: list[str]) -> Outcome:
    """A test that waits for a capability; it has failed if a subtest that should pass did not."""
    missing = [subtest for subtest in later.subtests if subtest not in passed]
    if missing:
        return Outcome(name, "FAILED", 0, f"without the missing {later.reason}: {', '.join(missing)}")
    rest = f"; its {len(passed)} other groups of subtests pass" if passed else ""
    return Outcome(name, "LATER", 0, later.reason + rest)


def judge(name: str, log: str, ending: str) -> Outcome:
    """Read one test's result from a finished run's log."""
    row = re.search(rf"\|\s*{name}\s*\|\s*(PASSED|FAILED|SKIPPED)\s*\|\s*([\d.]+)s *\|?([^\n]*)", log)
    if row is None:
        found = re.search(rf'### Test "{name}[^\n]*\n([^\n]*)', log)
        return Outcome(name, "FAILED", 0, found[1].strip()[:300] if found else ending)
    detail = (
        row[3].strip().replace("Filtered due to negative test flags", KNOWN_ISSUE)
        if row[1] != "PASSED"
        else ""
    )
    return Outcome(name, row[1], float(row[2]), detail)


def kafka_path(work: Path) -> dict[str, str]:
    """KAFKA_PATH: the jars, and Kafka's command-line tools as small scripts. Where these and a Java are."""
    jars = cache_root() / f"kafka-{TARGET_RELEASE}"
    if not (jars / ".complete").exists() or shutil.which("java") is None:
        return {}
    programs = work / "kafka" / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for program, main_class in KAFKA_TOOLS.items():
        script = programs / program
        script.write_text(f'#!/bin/sh\nexec java -cp "{jars}/*" {main_class} "$@"\n')
        script.chmod(0o755)
    run_class = programs / "kafka-run-class.sh"
    run_class.write_text(f'#!/bin/sh\nexec java -cp "$CLASSPATH:{jars}/*" "$@"\n')
    run_class.chmod(0o755)
    libs = programs.parent / "libs"
    if not libs.exists():
        libs.symlink_to(jars)
    return {"KAFKA_PATH": str(programs.parent)}


def summary(outcomes: list[Outcome]) -> str:
    counts = {
        kind: sum(o.result == kind for o in outcomes) for kind in ("PASSED", "FAILED", "SKIPPED", "LATER")
    }
    return json.dumps({"librdkafka": PACKAGE, **{kind.lower(): count for kind, count in counts.items()}})


def documented(except_for: list[Outcome]) -> list[Outcome]:
    """The results that docs/compatibility.md has now, but for some."""
    _, _, rest = DOCUMENT.read_text().partition(BEGIN)
    renewed = {outcome.name for outcome in except_for}
    rows = re.findall(r"^\| (\d{4}_\w+) \| (\w+) \| (.*) \|$", rest, flags=re.MULTILINE)
    return [Outcome(name, result.upper(), 0, why) for name, result, why in rows if name not in renewed]


def write_document(outcomes: list[Outcome]) -> None:
    """Replace the generated part of docs/compatibility.md."""
    outcomes = sorted(outcomes, key=lambda outcome: outcome.name)
    passed = sum(outcome.result == "PASSED" for outcome in outcomes)
    lines = [
        BEGIN,
        f"{passed} of the {len(outcomes)} tests that need a broker pass "
        f"(librdkafka of npm package `{PACKAGE}`, one node, not in quick mode, topics with one replica).",
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
