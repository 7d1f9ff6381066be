"""`kafka-dump-log` reads every file of a busy node and finds the data that the node served."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_story import GROUPS, TRANSACTIONAL_IDS, Story
from node_view import NodeView, view_of

from kafka_node import run_java
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.records import Record
from penstock.testing import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

TOOL = "org.apache.kafka.tools.DumpLogSegments"
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
OTHERS = {  # in formats that the tool does not read
    ".lock",
    ".kafka_cleanshutdown",
    ".penstock_run",
    "meta.properties",
    "partition.metadata",
    "quorum-state",
    "leader-epoch-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}
COMPLAINTS = ("isvalid: false", "ismatch", "out of order", "Non-consecutive", "orrupt", "Could not decode")
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?:Create|LogAppend)Time: (?P<timestamp>\d+) keySize: \S+ "
    r"valueSize: (?P<size>\S+) sequence: \S+ headerKeys: \[(?P<headers>.*?)\]"
    r"(?: key: (?P<key>\S+))?(?: payload: (?P<value>.*))?"
)


def test_every_file_of_a_busy_node(kafka_libs: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    view = be_busy(data_dir)
    # The kill may come while the node removes a deleted partition. An index is then left without its segment,
    # until a node that runs for more than a second completes the removal.
    files = sorted(
        path for path in data_dir.rglob("*") if path.is_file() and not path.parent.name.endswith("-delete")
    )
    assert {path.name for path in files if path.suffix not in DUMPED} <= OTHERS
    of_topics, of_groups, of_transactions, of_metadata = [], [], [], []
    for path in (path for path in files if path.suffix in DUMPED):
        kept = {
            "__consumer_offsets": of_groups,
            "__transaction_state": of_transactions,
            "__cluster_metadata": of_metadata,
            "": of_metadata,
        }
        kept.get(topic_of(path, data_dir), of_topics).append(path)
    check_records(dump(kafka_libs, of_topics, "--deep-iteration", "--print-data-log"), view)
    check_groups(dump(kafka_libs, of_groups, "--offsets-decoder"), view)
    check_transactions(dump(kafka_libs, of_transactions, "--transaction-log-decoder"), view)
    check_metadata(dump(kafka_libs, of_metadata, "--cluster-metadata-decoder"), view)
    indexes = [path for path in files if path.suffix in (".index", ".timeindex")]
    sane = run_java(kafka_libs, TOOL, "--index-sanity-check", "--files", ",".join(map(str, indexes)))
    assert sane.count("passed sanity check") + sane.count("index is empty") == len(indexes)


def be_busy(data_dir: Path) -> NodeView:
    """Fill a directory with every kind of file and return the data that the node served."""
    config = {
        "metadata.log.max.record.bytes.between.snapshots": "3000",
        "internal.metadata.log.segment.bytes": "6000",
        "log.segment.delete.delay.ms": "0",
    }
    story = Story()
    with Cluster(config, data_dir=data_dir) as cluster:
        story.begin(cluster.bootstrap_servers)
        cluster.kill()
        cluster.start()
        story.go_on(cluster.bootstrap_servers)
        view = view_of(cluster.bootstrap_servers, groups=GROUPS[:2])
    return view


def topic_of(path: Path, data_dir: Path) -> str:
    """The topic that a file belongs to, or "" for a file of the node."""
    return "" if path.parent == data_dir else path.parent.name.rpartition("-")[0]


def dump(libs: Path, files: list[Path], *options: str) -> dict[Path, list[str]]:
    """The output of the tool for each file; it must report no problem."""
    output = run_java(libs, TOOL, *options, "--files", ",".join(map(str, files)))
    for complaint in COMPLAINTS:
        assert complaint not in output, re.findall(f".*{complaint}.*", output)[:3]
    sections: dict[Path, list[str]] = {}
    for line in output.splitlines():
        if line.startswith("Dumping "):
            section = sections.setdefault(Path(line.removeprefix("Dumping ")), [])
        else:
            section.append(line)
    assert sections.keys() == set(files)
    return sections


def check_records(found: dict[Path, list[str]], view: NodeView) -> None:
    assert sum(len(lines) > 1 for path, lines in found.items() if path.suffix == ".index") >= 10
    assert any(
        "producerId: " in line for p, lines in found.items() if p.suffix == ".snapshot" for line in lines
    )
    dumped: dict[str, dict[int, re.Match[str]]] = {}
    for path, lines in found.items():
        if path.suffix == ".log":
            records = dumped.setdefault(path.parent.name, {})
            records.update({int(match["offset"]): match for match in map(RECORD.match, lines) if match})
    for name, topic in view.topics.items():
        for index, partition in topic.partitions.items():
            for record in partition.records:
                check_record(record, dumped[f"{name}-{index}"][record.offset])


def check_record(record: Record, found: re.Match[str]) -> None:
    def text(data: bytes | memoryview | None) -> str | None:
        return None if data is None else bytes(data).decode()

    assert int(found["timestamp"]) == record.timestamp
    assert found["key"] == text(record.key)
    assert (found["value"] if int(found["size"]) >= 0 else None) == text(record.value)
    assert found["headers"] == ",".join(key for key, _ in record.headers)


def check_groups(found: dict[Path, list[str]], view: NodeView) -> None:
    committed: dict[str, dict[tuple[str, int], tuple[int, int, str]]] = {}
    for key, value in decoded(found):
        if key["type"] == "1":
            data, payload = key["data"], value["data"]
            committed.setdefault(data["group"], {})[data["topic"], data["partition"]] = (
                payload["offset"],
                payload["leaderEpoch"],
                payload["metadata"],
            )
    pending = committed.pop(GROUPS[3])  # in open transactions
    assert len(pending) == len(TRANSACTIONAL_IDS)
    assert committed == view.committed


def check_transactions(found: dict[Path, list[str]], view: NodeView) -> None:
    """Check that the newest record of each transactional id has the reported state and producer."""
    newest: dict[str, tuple[object, ...]] = {}
    for key, value in decoded(found):
        data = value["data"]
        state = list(TransactionState)[data["transactionStatus"]]
        newest[key["data"]["transactionalId"]] = (state.value, data["producerId"], data["producerEpoch"])
    assert newest == {name: told[:3] for name, told in view.transactions.items()}


def decoded(found: dict[Path, list[str]]) -> Iterator[tuple[dict[str, dict], dict[str, dict]]]:
    for lines in found.values():
        for line in lines:
            if match := re.search(r" key: (\{.*\}) payload: (\{.*\})$", line):
                yield json.loads(match[1]), json.loads(match[2])


def check_metadata(found: dict[Path, list[str]], view: NodeView) -> None:
    """Check that the newest snapshot and the log after it define the topics that the node served."""
    snapshots = sorted(path for path in found if path.suffix == ".checkpoint" and path.name[0] == "0")
    logs = sorted(path for path in found if path.suffix == ".log")
    assert snapshots
    assert len(logs) >= 2
    for path in snapshots:
        text = "\n".join(found[path])
        assert "SnapshotHeader" in text
        assert "SnapshotFooter" in text
    end_offset = int(snapshots[-1].name.partition("-")[0])
    records = [record for _, record in metadata_records(found[snapshots[-1]])]
    for path in logs:
        records += [record for offset, record in metadata_records(found[path]) if offset >= end_offset]
    names: dict[str, str] = {}
    for record in records:
        data = record["data"]
        if record["type"] == "TOPIC_RECORD":
            names[data["topicId"]] = data["name"]
        elif record["type"] == "REMOVE_TOPIC_RECORD":
            del names[data["topicId"]]
    assert sorted(names.values()) == sorted(view.topics)


def metadata_records(lines: list[str]) -> Iterator[tuple[int, dict]]:
    for line in lines:
        if match := re.search(r"offset: (\d+) .* payload: (\{.*\})$", line):
            yield int(match[1]), json.loads(match[2])
