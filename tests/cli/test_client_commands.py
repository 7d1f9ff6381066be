"""The client commands against a node, as a script would use them: exit codes and JSON."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from importlib.metadata import version
from typing import Any

import pytest

from penstock.protocol.kernels import IMPLEMENTATION
from penstock.testing import Cluster

LOGGER = "penstock.broker.control.controller"


class Penstock:
    """A runner of `penstock` commands against one node."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PENSTOCK_BOOTSTRAP": self.bootstrap},
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the command with its standard streams open, to be interrupted."""
        return subprocess.Popen(
            [sys.executable, "-m", "penstock", *words, "--bootstrap", self.bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A test run in the background of a shell ignores SIGINT, and its children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def ok(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
        return done.stdout

    def json(self, *words: str, stdin: str = "") -> Any:
        return json.loads(self.ok(*words, "--json", stdin=stdin))

    def records(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ok("consume", *words, "--json").splitlines()]


@pytest.fixture(scope="module")
def penstock(penstock_cluster: Cluster) -> Penstock:
    return Penstock(penstock_cluster.bootstrap_servers)


@pytest.fixture
def topic() -> str:
    return f"cli-{uuid.uuid4().hex[:8]}"


def test_a_topic_is_described_with_its_offsets(penstock: Penstock, topic: str) -> None:
    penstock.ok("topic", "create", topic, "-p", "2")
    penstock.ok("produce", topic, "-p", "1", stdin="a\nb\n")
    [described] = penstock.json("topic", "describe", topic, "--offsets")
    assert [(p["partition"], p["earliest"], p["latest"]) for p in described["partitions"]] == [
        (0, 0, 0),
        (1, 0, 2),
    ]
    table = penstock.ok("topic", "describe", topic, "--offsets").splitlines()
    assert table[1].split()[-2:] == ["EARLIEST", "LATEST"]
    assert table[-1].split()[-2:] == ["0", "2"]


def test_a_topic_from_creation_to_deletion(penstock: Penstock, topic: str) -> None:
    assert penstock.json("topic", "create", topic, "-p", "3", "-c", "retention.ms=1000000") == [
        {"topic": topic, "created": True}
    ]
    assert penstock.json("topic", "create", topic, "--if-not-exists") == [{"topic": topic, "created": False}]
    [described] = penstock.json("topic", "describe", topic)
    assert len(described["partitions"]) == 3
    assert "latest" not in described["partitions"][0]
    assert described["configs"] == {"retention.ms": "1000000"}
    penstock.ok("topic", "alter", topic, "-p", "5", "-c", "max.message.bytes=2000", "-d", "retention.ms")
    [described] = penstock.json("topic", "describe", topic)
    assert len(described["partitions"]) == 5
    assert described["configs"] == {"max.message.bytes": "2000"}
    assert topic in {row["topic"] for row in penstock.json("topic", "list")}
    penstock.ok("topic", "delete", topic)
    assert topic not in {row["topic"] for row in penstock.json("topic", "list")}


def test_records_go_in_and_come_out_with_key_headers_and_bytes(penstock: Penstock, topic: str) -> None:
    penstock.ok("produce", topic, "-K", ":", "-H", "source=test", stdin="k1:v1\nk2:v:2\n")
    raw = {
        "key_base64": "//4=",
        "value": None,
        "headers": [{"name": "h", "value_base64": "/w=="}],
        "timestamp_ms": 5,
    }
    assert penstock.json("produce", topic, "--json-lines", stdin=json.dumps(raw)) == {
        "topic": topic,
        "acknowledged": 1,
    }
    first, second, third = penstock.records(topic, "--from-beginning", "--exit-at-end")
    assert (first["key"], first["value"]) == ("k1", "v1")
    assert (second["key"], second["value"]) == ("k2", "v:2")
    assert first["headers"] == [{"name": "source", "value": "test"}]
    assert {name: third[name] for name in raw} == raw


def test_reading_starts_at_an_offset_or_a_time(penstock: Penstock, topic: str) -> None:
    lines = "\n".join(json.dumps({"value": str(n), "timestamp_ms": 1000 * n}) for n in range(1, 6))
    penstock.ok("produce", topic, "--json-lines", stdin=lines)
    assert [r["value"] for r in penstock.records(topic, "--offset", "3", "--exit-at-end")] == ["4", "5"]
    assert [r["value"] for r in penstock.records(topic, "-t", "2500", "--exit-at-end")] == ["3", "4", "5"]
    assert [r["value"] for r in penstock.records(topic, "-t", "1970-01-01T00:00:05", "-n", "1")] == ["5"]


def test_a_group_reads_commits_is_reset_and_deleted(penstock: Penstock, topic: str) -> None:
    group = f"group-{topic}"
    penstock.ok("produce", topic, stdin="a\nb\nc\n")
    read = penstock.records(topic, "--group", group, "--from-beginning", "--exit-at-end")
    assert [record["value"] for record in read] == ["a", "b", "c"]
    described = penstock.json("group", "describe", group)
    assert (described["state"], described["offsets"][0]["committed"], described["offsets"][0]["lag"]) == (
        "empty",
        3,
        0,
    )
    assert group in {row["group"] for row in penstock.json("group", "list")}
    plan = penstock.json("group", "reset-offsets", group, "--shift-by", "-2")
    assert plan["executed"] is False
    assert penstock.json("group", "describe", group)["offsets"][0]["committed"] == 3
    penstock.ok("group", "reset-offsets", group, "--shift-by", "-2", "--execute")
    assert penstock.json("group", "describe", group)["offsets"][0]["lag"] == 2
    penstock.ok("group", "delete", group)
    assert group not in {row["group"] for row in penstock.json("group", "list")}


@pytest.mark.parametrize(
    ("words", "to", "warning"),
    [
        (("--to-offset", "7"), 3, "New offset (7) is higher than latest offset"),
        (("--shift-by", "1"), 3, "New offset (4) is higher than latest offset"),
        (("--shift-by", "-4"), 0, "New offset (-1) is lower than earliest offset"),
        (("--shift-by", "-3"), 0, None),
        (("--to-offset", "3"), 3, None),
        (("--to-timestamp", "9999-01-01"), 3, None),
    ],
)
def test_an_offset_outside_the_log_is_moved_into_it_with_a_warning(
    penstock: Penstock, topic: str, words: tuple[str, ...], to: int, warning: str | None
) -> None:
    group = f"group-{topic}"
    penstock.ok("produce", topic, stdin="a\nb\nc\n")
    penstock.ok("group", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    done = penstock.run("group", "reset-offsets", group, *words, "--json")
    [planned] = json.loads(done.stdout)["offsets"]
    assert (done.returncode, planned["to"]) == (0, to)
    expected = f"warning: {warning} for topic partition {topic}-0. Value will be set to {to}\n"
    assert done.stderr == ("" if warning is None else expected)


def test_configurations_are_shown_and_changed(penstock: Penstock, topic: str) -> None:
    penstock.ok("topic", "create", topic)
    penstock.ok("config", "alter", "topic", topic, "--set", "cleanup.policy=compact")
    changed = {row["name"]: row for row in penstock.json("config", "describe", "topic", topic, "--changed")}
    assert changed["cleanup.policy"]["value"] == "compact"
    assert changed["cleanup.policy"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert {row["name"] for row in penstock.json("config", "describe", "broker", "1")} >= {
        "log.dirs",
        "listeners",
    }


def test_log_levels_of_a_broker_are_shown_set_and_inherited_again(penstock: Penstock) -> None:
    def levels() -> dict[str, str]:
        return {
            row["name"]: row["value"] for row in penstock.json("config", "describe", "broker-logger", "1")
        }

    before = levels()
    assert {"root", "penstock", LOGGER} <= before.keys()
    set_level = f"{LOGGER}=DEBUG"
    changed = penstock.json("config", "alter", "broker-logger", "1", "--set", set_level)
    assert changed == {"kind": "broker-logger", "name": "1", "altered": True}
    assert levels() == {**before, LOGGER: "DEBUG"}
    assert re.search(rf"{LOGGER} +DEBUG", penstock.ok("config", "describe", "broker-logger", "1"))
    penstock.ok("config", "alter", "broker-logger", "1", "--delete", LOGGER)
    assert levels() == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("alter", "broker-logger", "1", "--set", "root=LOUD"), 1, "not a supported log level"),
        (("alter", "broker-logger", "1", "--set", "nope=INFO"), 1, "Logger nope does not exist!"),
        (("alter", "broker-logger", "1", "--delete", "root"), 1, "the root logger is not allowed"),
        (("describe", "broker-logger", "7"), 1, "there is no broker '7': expected one of 1"),
        (("describe", "broker-logger", "1", "--changed"), 2, "log levels have no defaults"),
    ],
)
def test_a_log_level_that_cannot_be_changed_is_an_error(
    penstock: Penstock, words: tuple[str, ...], code: int, said: str
) -> None:
    done = penstock.run("config", *words)
    assert (done.returncode, said in " ".join(done.stderr.split())) == (code, True), done.stderr


def test_ctrl_c_ends_reading_and_writing_without_a_word(penstock: Penstock, topic: str) -> None:
    penstock.ok("topic", "create", topic)
    with penstock.start("produce", topic) as writing, penstock.start("consume", topic, "-o", "0") as reading:
        assert writing.stdin is not None
        assert reading.stdout is not None
        writing.stdin.write("typed\n")
        writing.stdin.flush()
        assert reading.stdout.readline() == "typed\n"
        reading.send_signal(signal.SIGINT)
        assert (*reading.communicate(timeout=20), reading.returncode) == ("", "", 0)
        writing.send_signal(signal.SIGINT)
        said = f"1 record acknowledged by {topic}\n"
        assert (*writing.communicate(timeout=20), writing.returncode) == (said, "", 130)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["topc"], 2, "Did you mean 'topic'?"),
        (["topic", "describe", "no-such-topic"], 1, "topic 'no-such-topic': Unknown topic or partition"),
        (["topic", "delete", "no-such-topic"], 1, "(UNKNOWN_TOPIC_OR_PARTITION)"),
        (["topic", "create", "bad name"], 1, "bad name"),
        (["topic", "alter", "t"], 2, "nothing to alter"),
        (["config", "alter", "topic", "t", "--set", "novalue"], 2, "expected NAME=VALUE, found 'novalue'"),
        (["config", "describe", "broker", "9"], 1, "there is no broker '9': expected one of 1"),
        (["produce", "t", "--acks", "5"], 2, "'0', '1', 'all'"),
        (["produce", "no/such", "--json"], 1, "topic 'no/such': Invalid topic (INVALID_TOPIC_EXCEPTION)"),
        (["produce", "of-one-partition", "--partition", "999"], 1, "(UNKNOWN_PARTITION)"),
        (["group", "describe", "no-such-group"], 1, "there is no group 'no-such-group'"),
        (["consume", "no-such-topic", "--exit-at-end"], 1, "no-such-topic"),
        (["consume", "t", "--offset", "1", "--from-beginning"], 2, "at most one of"),
        (["consume", "t", "--timestamp", "yesterday"], 2, "found 'yesterday'"),
        (["group", "describe", "g", "--command-config", "/no/such/file"], 2, "/no/such/file"),
        (["group", "reset-offsets", "g"], 2, "exactly one of"),
    ],
)
def test_errors_name_the_thing_and_set_the_exit_code(
    penstock: Penstock, words: list[str], code: int, message: str
) -> None:
    done = penstock.run(*words, stdin="a record\n")
    assert done.stdout == ""
    assert (done.returncode, message in done.stderr) == (code, True), f"{done.returncode}: {done.stderr}"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "list"],
        ["produce", "t"],
        ["consume", "t", "--group", "g"],
        ["group", "list"],
        ["config", "describe", "broker", "1"],
    ],
)
def test_an_unreachable_broker_is_exit_code_3(words: list[str]) -> None:
    done = Penstock("127.0.0.1:1").run(*words)
    assert done.returncode == 3
    assert "no broker answers at 127.0.0.1:1 (Connection refused)" in done.stderr


def test_one_of_several_addresses_is_enough(penstock: Penstock) -> None:
    assert penstock.ok("topic", "list", "--bootstrap", f"127.0.0.1:1,{penstock.bootstrap}", "--json")


@pytest.mark.parametrize("address", ["a b", ":9092", "host:port"])
def test_what_is_no_address_is_a_wrong_usage(address: str) -> None:
    done = Penstock(address).run("topic", "list")
    assert (done.returncode, "expected HOST:PORT" in done.stderr) == (2, True)


def test_the_version_is_that_of_the_package_and_names_the_kernels() -> None:
    assert Penstock("").ok("--version") == f"penstock {version('penstock')} (kernels: {IMPLEMENTATION})\n"
    slow = subprocess.run(
        [sys.executable, "-m", "penstock", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PENSTOCK_PURE_PYTHON": "1"},
        check=True,
    )
    assert slow.stdout == f"penstock {version('penstock')} (kernels: python)\n"
