"""kafka-python's and aiokafka's own integration tests on secured nodes; writes docs/compatibility.md.

    python tests/clients/python_clients_suite.py kafka-python --source DIRECTORY
    python tests/clients/python_clients_suite.py aiokafka --source DIRECTORY
    python tests/clients/python_clients_suite.py aiokafka --source DIRECTORY --run group

The directory is a clone of the project's repository that has the tag below, because the packages have no
integration tests. With `--run`, only tests that match run, and the document is left alone. Plugins start
Penstock where the tests would start Apache Kafka: `kafka_python_fixtures` and `aiokafka_fixtures`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from suites_table import Counts, write_row

from maven_jars import jars_of

TARGET_RELEASE = "4.3.1"
TIMEOUT_S = 580
HERE = Path(__file__).parent
TOOLS = {"kafka-topics.sh": "org.apache.kafka.tools.TopicCommand"}


class Project(NamedTuple):
    """A project's tests: the tag, words for pytest, and what the row of the document says."""

    tag: str
    plugin: str
    words: tuple[str, ...]
    listener: str
    note: str


PROJECTS = {
    "kafka-python": Project(
        "3.0.11",
        "kafka_python_fixtures",
        ("test/integration",),
        "one node for each listener: PLAINTEXT with ACLs, SSL, SASL_PLAINTEXT with each mechanism",
        "two need AlterReplicaLogDirs and ListConfigResources, one an older node",
    ),
    "aiokafka": Project(
        "v0.14.0",
        "aiokafka_fixtures",
        (
            *("--noconftest", "-c", os.devnull, "--rootdir", "."),  # its own settings need pytest-asyncio
            *("tests/test_sasl.py", "tests/test_consumer.py", "tests/test_producer.py"),
        ),
        "one node with ACLs: SASL_PLAINTEXT with PLAIN and SCRAM-SHA-256, SSL with certificates of clients",
        "two need GSSAPI, one an older node",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", choices=PROJECTS)
    parser.add_argument("--source", type=Path, required=True, help="a clone of the project's repository")
    parser.add_argument("--run", default="", help="a pattern of tests' names, as for pytest's -k")
    arguments = parser.parse_args()
    project = PROJECTS[arguments.project]
    with tempfile.TemporaryDirectory(prefix=f"{arguments.project}-") as scratch:
        directory = Path(scratch)
        tests = check_out(arguments.source, project.tag, directory)
        log = run_tests(project, tests, directory, arguments.run)
    counts = counts_of(log)
    if not arguments.run:
        write_row(f"`{arguments.project}` {project.tag}", project.listener, counts, project.note)
    return counts.failed > 0


def check_out(source: Path, tag: str, directory: Path) -> Path:
    """Check the tag out of the clone; return the new work tree."""
    tree = directory / "source"
    command = [
        "git",
        "clone",
        "--quiet",
        "--depth",
        "1",
        "--branch",
        tag,
        f"file://{source.resolve()}",
        str(tree),
    ]
    subprocess.run(command, check=True)
    shutil.rmtree(tree / "aiokafka", ignore_errors=True)  # it needs a compiler; the installed one is the same
    return tree


def run_tests(project: Project, tree: Path, directory: Path, pattern: str) -> str:
    """Run the tests, and return and print what pytest reports."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(tree), str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
        ),
        "KAFKA_VERSION": TARGET_RELEASE,
        "KAFKA_ROOT": str(kafka_root(directory)),
        "PROJECT_ROOT": str(tree),
    }
    command = [sys.executable, "-m", "pytest", "-p", project.plugin, "-p", "no:penstock", "-rA", "--tb=short"]
    log_file = directory / "tests.log"
    with log_file.open("wb") as output:
        subprocess.run(
            [*command, *project.words, "-k", pattern],
            cwd=tree,
            env=environment,
            stdout=output,
            stderr=output,
            timeout=TIMEOUT_S,
            check=False,
        )
    log = log_file.read_text(errors="replace")
    print(log)
    return log


def kafka_root(directory: Path) -> Path:
    """Write the programs of an installation of Kafka: a node and its format by Penstock, tools by Kafka."""
    programs = directory / "kafka" / "bin"
    programs.mkdir(parents=True)
    penstock = f"{sys.executable} -m penstock"
    scripts = {
        "kafka-run-class.sh": f'exec {penstock} start --config "$2"',
        "kafka-storage.sh": f'exec {penstock} storage "$@"',
    }
    libs = jars_of(HERE / "kafka_pom.xml", f"kafka-{TARGET_RELEASE}")
    for name, main_class in TOOLS.items():
        scripts[name] = f'exec java -cp "{libs}/*" {main_class} "$@"'
    for name, line in scripts.items():
        script = programs / name
        script.write_text(f"#!/bin/sh\n{line}\n")
        script.chmod(0o755)
    return programs.parent


def counts_of(log: str) -> Counts:
    """Count the tests in the last line of pytest's report."""
    last = re.findall(r"^=+ (.*) in [\d.]+s.*=+$", log, flags=re.MULTILINE)[-1]
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    return Counts(
        found.get("passed", 0), found.get("failed", 0) + found.get("error", 0), found.get("skipped", 0)
    )


if __name__ == "__main__":
    sys.exit(main())
