"""`penstock streams` with Spark: an application from its file is run, stopped, and reset."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streams_node import Node
from typer.testing import CliRunner

from penstock.cli.streams import app
from penstock.testing import Cluster

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60

pytestmark = [pytest.mark.spark, pytest.mark.timeout(200)]

APP = """\
from dataclasses import dataclass
from penstock.streams import App, string
from voice_beside import louder

@dataclass
class Line:
    text: str

def words(line):
    if line == "broken":
        raise ValueError("no words in it")
    return Line(louder(line)).text

app = App("shouting", key=string, value=string)
app.stream("lines").map_values(words).group_by_key().count(store="counts").to_stream().to("totals")
"""


@pytest.fixture
def node() -> Iterator[Node]:
    with Cluster() as cluster:
        node = Node(cluster.bootstrap_servers)
        node.create(1, "lines")
        yield node


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "voice_beside.py").write_text("def louder(text):\n    return text.upper()\n")
    path = tmp_path / "shouting.py"
    path.write_text(APP)
    return path


def lines(count: int, value: bytes = b"line") -> list[tuple[str, bytes | None, bytes | None, int]]:
    return [("lines", b"key", value, 1000 + n) for n in range(count)]


def totals(node: Node) -> list[int]:
    return [int.from_bytes(value or b"") for _, value, _ in node.read("totals")]


def invoke(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "400"})
    return done.exit_code, done.output


@pytest.mark.usefixtures("spark")
def test_run_until_drained_shows_batches_and_reset_begins_anew(node: Node, file: Path) -> None:
    node.write(lines(20))
    words = (file, "--bootstrap", node.servers)
    checkpoint = file.parent / "shouting-checkpoint"
    run = ("run", *words, "--until", "drained", "--profile", "low-latency", "--option", "maxPartitions=2")
    code, said = invoke(*run)
    assert code == 0, said
    assert "20 records in" in said
    assert "lag 0" in said
    assert (checkpoint / "offsets").is_dir()
    assert totals(node) == list(range(1, 21))
    code, said = invoke("reset", *words)
    assert code == 0, said
    assert "deleted shouting-counts-changelog" in said
    assert "shouting starts from the beginning in 1 partitions" in said
    assert not checkpoint.exists()
    node.write(lines(1))
    assert invoke(*run)[0] == 0
    assert totals(node) == [*range(1, 21), *range(1, 22)]


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (b"{", r"penstock/streams.json is damaged: b'{'"),
        (b'{"version": 9}', "penstock/streams.json has version 9, expected at most 1"),
        (b'{"version": 1, "application": "other", "has_state": true, "shuffle_partitions": 1}',
         "is the checkpoint of the application other, not of shouting"),
    ],
)  # fmt: skip
def test_reset_leaves_everything_where_it_cannot_tell_whose_the_checkpoint_is(
    kept: bytes, message: str, node: Node, file: Path
) -> None:
    node.create(1, "shouting-counts-changelog")
    checkpoint = file.parent / "checkpoint"
    (checkpoint / "penstock").mkdir(parents=True)
    (checkpoint / "penstock" / "streams.json").write_bytes(kept)
    code, said = invoke("reset", file, "--checkpoint", checkpoint, "--bootstrap", node.servers)
    assert code == 1
    assert message in said
    assert "Traceback" not in said
    assert (checkpoint / "penstock" / "streams.json").read_bytes() == kept
    assert "shouting-counts-changelog" in node.admin.list_topics(timeout=60).topics


@pytest.mark.usefixtures("spark")
def test_what_goes_wrong_is_one_line(node: Node, file: Path) -> None:
    words = ("--checkpoint", file.parent / "c", "--bootstrap", node.servers, "--until", "drained")
    node.write(lines(1, b"broken"))
    code, said = invoke("run", file, *words)
    assert code == 1
    assert "lines-0 at offset 0: ValueError: no words in it" in said
    assert "Traceback" not in said
    code, said = invoke("run", file, *words, "--option", "maxOffsetPerTrigger=5")
    assert code == 2
    assert "unknown option 'maxoffsetpertrigger'; did you mean 'maxOffsetsPerTrigger'?" in said
    other = file.with_name("other.py")
    other.write_text("from penstock.streams import App, string\na = App('other', key=string, value=string)\n"
                     "a.stream('nowhere').to('totals')\n")  # fmt: skip
    code, said = invoke("run", other, "--checkpoint", file.parent / "d", *words[2:])
    assert code == 1
    assert "other reads topics that don't exist" in said


def run_apart(node: Node, file: Path, checkpoint: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "penstock", "streams", "run", file),
            *("--checkpoint", checkpoint, "--bootstrap", node.servers, "--master", "local[1]"),
            *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "COLUMNS": "400"},
    )


@pytest.mark.skipif(
    os.environ.get("PENSTOCK_STREAMS_SPARK") != "all", reason="PENSTOCK_STREAMS_SPARK=all runs it"
)
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("broker", ["node", pytest.param("kafka_servers", marks=pytest.mark.kafka)])
def test_of_two_drivers_with_a_checkpoint_each_the_later_one_goes_on(
    broker: str, file: Path, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(broker)
    node = found if isinstance(found, Node) else Node(found)
    if node is not found:
        node.create(1, "lines")
    node.write(lines(50))
    earlier = run_apart(node, file, file.parent / "one")
    try:
        said = _until(earlier, "batch ", START_TIMEOUT_S)
        node.write(lines(50))
        words = ("--checkpoint", file.parent / "two", "--bootstrap", node.servers, "--until", "drained")
        code, later_said = invoke("run", file, *words)
        assert code == 0, later_said
        node.write(lines(50))
        rest, _ = earlier.communicate(timeout=STOP_TIMEOUT_S)
    finally:
        if earlier.poll() is None:
            os.killpg(earlier.pid, signal.SIGKILL)
    assert earlier.returncode == 1, said + rest
    assert "RunFenced: this driver of the application shouting" in rest
    assert f"with the checkpoint {file.parent / 'two'}: this one no longer writes" in rest
    assert invoke("run", file, *words)[0] == 0
    assert totals(node) == list(range(1, 151))
    code, said = invoke("run", file, "--checkpoint", file.parent / "one", *words[2:])
    assert code == 1
    assert "the application shouting has continued with another checkpoint" in said
    assert "Traceback" not in said


@pytest.mark.long
def test_the_log_is_named_and_keeps_what_spark_prints(node: Node, file: Path) -> None:
    """A failure is the last line, and the only one about it."""
    node.write(lines(1, b"broken"))
    process = run_apart(node, file, file.parent / "checkpoint")
    try:
        said, _ = process.communicate(timeout=START_TIMEOUT_S)
    finally:
        process.kill()
    noted, failed = (line for line in said.splitlines() if "Spark's output" in line)
    log = noted.removeprefix("Spark's output goes to ")
    assert failed == said.splitlines()[-1]
    assert failed.startswith("error: RecordFailed: ")
    assert failed.endswith(f"lines-0 at offset 0: ValueError: no words in it (Spark's output is in {log})")
    assert "Traceback" not in said
    assert "Traceback (most recent call last)" in Path(log).read_text()
    Path(log).unlink()


@pytest.mark.long
def test_ctrl_c_stops_it_after_the_batch_in_hand(node: Node, file: Path) -> None:
    """The signal reaches all processes of the terminal's group at once."""
    checkpoint = file.parent / "checkpoint"
    node.write(lines(50))
    process = run_apart(node, file, checkpoint)
    try:
        said = _until(process, "batch ", START_TIMEOUT_S)
        node.write(lines(50))
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=STOP_TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 0, said + rest
    assert "stopping after this batch" in rest
    assert "shouting stopped" in rest
    sent = totals(node)
    assert sent == list(range(1, len(sent) + 1))
    assert len(sent) in (50, 100)
    commits = sorted(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    offsets = sorted(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    # One more batch may have been planned.
    assert commits == offsets[: len(commits)]
    assert len(offsets) - len(commits) <= 1, "batches were cut off"


def _until(process: Any, word: str, timeout_s: float) -> str:
    """The output up to the first line with this word."""
    said = ""
    deadline = time.monotonic() + timeout_s
    while word not in said:
        line = process.stdout.readline()
        assert line, said
        assert time.monotonic() < deadline, said
        said += line
    return said
