"""librdkafka's own integration tests against Penstock; writes their table into docs/compatibility.md.

    python tests/clients/librdkafka_suite.py              # everything that needs a broker, on one node
    python tests/clients/librdkafka_suite.py --nodes 3    # the same on three nodes
    python tests/clients/librdkafka_suite.py 0012 0045    # only these; the document is left alone
    python tests/clients/librdkafka_suite.py --update 0012  # update these rows of the document
    python tests/clients/librdkafka_suite.py --nodes 3 --on-kafka 0101  # on Apache Kafka, for comparison

The suite's source ships in the npm package @confluentinc/kafka-javascript. It is fetched and built in a cache
outside the repository (npm, a C compiler, make, and the headers of OpenSSL, zlib, zstd and RapidJSON; with
those of SASL and curl it skips fewer tests). Each test runs in a separate process, never in quick mode. One
line is changed: on one node, topics get one replica where tests ask for three, which only 0101 counts. Tests
flagged local and those on librdkafka's mock cluster don't test a broker and are left out.

One node serves one test at a time, so each job has its own; three nodes serve all jobs, like the suite's own
cluster. Tests of security have secured nodes of their own (`librdkafka_security`). 0109, 0115 and
0119 run Kafka's own kafka-acls, whose jars the tests marked `kafka` fetch.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import Empty, SimpleQueue

sys.path.insert(0, str(Path(__file__).parents[1]))
from librdkafka_later import LATER, NEEDS_SEVERAL, SAID_ONLY, Later
from librdkafka_nodes import TARGET_RELEASE, Nodes, Target
from librdkafka_security import OPEN, SECURED
from librdkafka_table import Outcome, write_document

from maven_jars import cache_root

PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
TEST_TIMEOUT_S = 1200  # 0113 takes ten minutes
KNOWN_ISSUE = "flagged by the suite as a known issue of its own"

REPLICAS = re.compile(r"(rd_kafka_NewTopic_new\(topicname, partition_cnt,) (?:replication_factor|1),")
REPLICAS_WANTED = r'\1 getenv("ONE_REPLICA") ? 1 : replication_factor,'

KAFKA_TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="*", help="numbers such as 0012; default: all that need a broker")
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3), help="how many brokers")
    parser.add_argument("--on-kafka", action="store_true", help="on Apache Kafka; the document is left alone")
    parser.add_argument("--bootstrap", help="another broker, for comparison; the document is then left alone")
    parser.add_argument("--jobs", type=int, default=3, help="tests at a time")
    parser.add_argument("--update", action="store_true", help="put named tests' results into the document")
    arguments = parser.parse_args()
    target = Target(arguments.nodes, arguments.on_kafka, arguments.bootstrap)
    tests_dir = prepare()
    tests = [t for t in broker_tests(tests_dir) if not arguments.tests or t.name[:4] in arguments.tests]
    outcomes = run_all(tests_dir, tests, target, arguments.jobs)
    print(summary(outcomes))
    if target.is_ours and (arguments.update or not arguments.tests):
        write_document(PACKAGE, target.nodes, outcomes, all_of_them=not arguments.tests)
    return any(outcome.result == "FAILED" for outcome in outcomes)


def prepare() -> Path:
    """Fetch and build the suite once; return its tests directory."""
    home = cache_root() / "librdkafka-suite"
    tests_dir = home / "package" / "deps" / "librdkafka" / "tests"
    source = tests_dir.parent
    if not (source / "src" / "librdkafka.so.1").exists():
        home.mkdir(parents=True, exist_ok=True)
        run_steps(
            (["npm", "pack", "--silent", PACKAGE], home),
            (["sh", "-c", "tar xzf *.tgz"], home),
            (["sh", "-c", "chmod +x configure lds-gen.py mklove/*.sh; ./configure"], source),
            (["make", "-j2", "libs"], source),
        )
    framework = (tests_dir / "test.c").read_text()
    changed, places = REPLICAS.subn(REPLICAS_WANTED, framework)
    if places:
        assert places == 1
        (tests_dir / "test.c").write_text(changed)
    if places or not (tests_dir / "test-runner").exists():
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
    """A test of the suite that needs a real broker, and its scenario."""

    name: str
    scenario: str

    @property
    def unit(self) -> tuple[str, str]:
        """Tests that share a number and a scenario run in one process."""
        return self.name[:4], self.scenario


def broker_tests(tests_dir: Path) -> list[Test]:
    """The tests in the suite's own table that need a broker."""
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


def run_all(tests_dir: Path, tests: list[Test], target: Target, jobs: int) -> list[Outcome]:
    """Run the tests, several at a time, because most of them mostly wait."""
    queue: SimpleQueue[list[Test]] = SimpleQueue()
    for _, family in groupby(
        sorted(tests, key=lambda test: (*test.unit, test.name)), key=lambda test: test.unit
    ):
        queue.put(list(family))
    outcomes: list[Outcome] = []

    def work(nodes: Nodes) -> None:
        while True:
            try:
                family = queue.get_nowait()
            except Empty:
                return
            outcomes.extend(run_family(tests_dir, family, target, nodes))

    def work_alone() -> None:
        with Nodes(target) as nodes:
            work(nodes)

    with ThreadPoolExecutor(jobs) as pool, Nodes(target) as shared:
        share = target.nodes > 1
        for done in [pool.submit(work, shared) if share else pool.submit(work_alone) for _ in range(jobs)]:
            done.result()
    return sorted(outcomes, key=lambda outcome: outcome.name)


def run_family(tests_dir: Path, family: list[Test], target: Target, nodes: Nodes) -> list[Outcome]:
    """Run the tests of one unit, or only the independent subtests of those that need a later capability."""
    number = family[0].unit[0]
    later = None if target.on_kafka else LATER.get(number)
    run = partial(run_unit, tests_dir, family[0], target, nodes)
    if number in NEEDS_SEVERAL and target.nodes == 1:
        outcomes = [Outcome(test.name, "SKIPPED", 0, NEEDS_SEVERAL[number]) for test in family]
    elif later is None:
        text, ending = run()
        outcomes = [judge(test.name, text, ending) for test in family]
    else:
        passed = [subtest for subtest in later.subtests if all_passed(run(subtest)[0])]
        outcomes = [judge_later(test.name, later, passed) for test in family]
    for outcome in outcomes:
        print(f"{outcome.result:8}{outcome.seconds:7.1f} s  {outcome.name}  {outcome.detail}", flush=True)
    return outcomes


def run_unit(
    tests_dir: Path, test: Test, target: Target, nodes: Nodes, subtest: str | None = None
) -> tuple[str, str]:
    """Run the tests of one number in a process; return its log and its result."""
    number, scenario = test.unit
    access = nodes.access(scenario, SECURED.get(number, OPEN))
    work = cache_root() / f"librdkafka-runs-{target.label}"
    work.mkdir(parents=True, exist_ok=True)
    label = "-".join([number, scenario, *re.findall(r"\w+", subtest or "")])
    conf, log = work / f"{label}.conf", work / f"{label}.log"
    settings = {"metadata.broker.list": access.bootstrap, "test.topic.random": "true", **access.settings}
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = [str(tests_dir / "test-runner"), "-p1", "-L", "-s", scenario]
    environment = {
        **os.environ,
        "TESTS": number,
        "LD_LIBRARY_PATH": f"{tests_dir.parent}/src:{tests_dir.parent}/src-cpp",  # not the system's
        "RDKAFKA_TEST_CONF": str(conf),
        "TEST_KAFKA_VERSION": TARGET_RELEASE,
        "BROKERS": access.bootstrap,
        **access.environment,
        **kafka_path(work),
    }
    if subtest is not None:
        environment["SUBTESTS"] = subtest
    if target.nodes == 1:
        environment["ONE_REPLICA"] = "1"
    environment.pop("CI", None)  # the suite relaxes some checks there
    with log.open("wb") as output:
        runner = subprocess.Popen(command, cwd=tests_dir, env=environment, stdout=output, stderr=output)
        try:
            ending = f"exit code {runner.wait(TEST_TIMEOUT_S)}"
        except subprocess.TimeoutExpired:
            runner.kill()
            ending = f"not finished after {TEST_TIMEOUT_S} s"
    return re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace")), ending


def all_passed(log: str) -> bool:
    """Whether there were subtests, and every one passed."""
    # Some titles contain a line break.
    titles = re.findall(r"\[ (\w+:\d+.*?) \]$", log, flags=re.MULTILINE | re.DOTALL)
    passed = [title.rpartition(": PASS (")[0] for title in titles if ": PASS (" in title]
    begun = [title for title in titles if ": PASS (" not in title]
    return bool(begun) and sorted(begun) == sorted(passed)


def judge_later(name: str, later: Later, passed: list[str]) -> Outcome:
    """Judge a test of which not all can pass: it fails if a subtest that should pass does not."""
    missing = [subtest for subtest in later.subtests if subtest not in passed]
    if missing:
        return Outcome(name, "FAILED", 0, f"failing subtests: {', '.join(missing)}")
    if later.is_of_kafka:
        return Outcome(name, "PASSED", 0, later.reason)
    rest = f"; its {len(passed)} other groups of subtests pass" if passed else ""
    return Outcome(name, "LATER", 0, later.reason + rest)


def judge(name: str, log: str, ending: str) -> Outcome:
    """Read one test's result from a finished run's log."""
    row = re.search(rf"\|\s*{name}\s*\|\s*(PASSED|FAILED|SKIPPED)\s*\|\s*([\d.]+)s *\|?([^\n]*)", log)
    if row is None:
        found = re.search(rf'### Test "{name}[^\n]*\n([^\n]*)', log)
        return Outcome(name, "FAILED", 0, found[1].strip()[:300] if found else ending)
    said = [words for words in SAID_ONLY.get(name[:4], ()) if words in log]
    if row[1] == "PASSED" and said:
        return Outcome(name, "FAILED", float(row[2]), "; ".join(said))
    detail = (
        row[3].strip().replace("Filtered due to negative test flags", KNOWN_ISSUE)
        if row[1] != "PASSED"
        else ""
    )
    return Outcome(name, row[1], float(row[2]), detail)


def kafka_path(work: Path) -> dict[str, str]:
    """Create KAFKA_PATH with the jars and Kafka's command-line tools as scripts, if jars and Java exist."""
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


if __name__ == "__main__":
    sys.exit(main())
