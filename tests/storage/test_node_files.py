"""The files of a log directory and of a partition's directory, byte for byte as Kafka writes them."""

import uuid
from pathlib import Path

import pytest

from penstock.storage.config import LogConfig
from penstock.storage.directories import meta_properties
from penstock.storage.directories.meta_properties import MetaProperties
from penstock.storage.disk import checkpoints
from penstock.storage.disk.checkpoints import CheckpointCorrupt
from penstock.storage.disk.files import REAL_FILES
from penstock.storage.errors import LogDirectoryError
from penstock.storage.names import (
    DELETE_DIRECTORY_SUFFIX,
    TopicPartition,
    marked_directory_name,
    offset_file_name,
    offset_of_file,
    parse_directory_name,
)
from penstock.storage.partition import partition_metadata
from penstock.storage.partition.leader_epochs import LeaderEpochs

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def test_offset_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.RECOVERY_POINTS
    assert checkpoints.read_offsets(path) == {}
    path.write_bytes(b"")
    assert checkpoints.read_offsets(path) == {}, "Kafka creates it empty"
    offsets = {TopicPartition("a.b_c-d", 0): 17, TopicPartition("z", 12): 0}
    checkpoints.write_offsets(REAL_FILES, path, offsets)
    assert path.read_text() == "0\n2\na.b_c-d 0 17\nz 12 0\n"
    assert checkpoints.read_offsets(path) == offsets
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "text", ["\n", "0", "x\n0\n", "1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n0\na 0 1\n"]
)
def test_a_broken_checkpoint_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "some-checkpoint"
    path.write_text(text)
    with pytest.raises(CheckpointCorrupt, match="some-checkpoint"):
        checkpoints.read_offsets(path)


def test_leader_epochs(tmp_path: Path) -> None:
    epochs = LeaderEpochs(tmp_path, REAL_FILES)
    assert epochs.latest == -1
    assert epochs.end_offset_for(3, 100) == (-1, -1)
    for epoch, start in ((1, 0), (1, 5), (3, 10), (4, 20)):
        epochs.assign(epoch, start)
    assert epochs.entries == [(1, 0), (3, 10), (4, 20)]
    assert [epochs.end_offset_for(epoch, 25) for epoch in (-1, 0, 1, 2, 3, 4, 5)] == [
        (-1, -1),
        (0, 0),
        (1, 10),
        (1, 10),
        (3, 20),
        (4, 25),
        (-1, -1),
    ]
    assert [epochs.epoch_for(offset) for offset in (0, 9, 10, 99)] == [1, 1, 3, 4]
    epochs.flush()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n1 0\n3 10\n4 20\n"
    epochs = LeaderEpochs(tmp_path, REAL_FILES)
    epochs.truncate_from_start(12)
    assert epochs.entries == [(3, 12), (4, 20)]
    epochs.truncate_from_end(20)
    assert epochs.entries == [(3, 12)]
    epochs.assign(2, 11)
    assert epochs.entries == [(2, 11)], "entries that contradict the newer one go"
    epochs.flush()
    assert LeaderEpochs(tmp_path, REAL_FILES).entries == [(2, 11)]


def test_partition_metadata(tmp_path: Path) -> None:
    assert partition_metadata.read_topic_id(tmp_path) is None
    topic_id = uuid.UUID("8d7b335c-5efb-4e49-8c4b-981a0fe94b3c").bytes
    partition_metadata.write_topic_id(REAL_FILES, tmp_path, topic_id)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: jXszXF77TkmMS5gaD-lLPA"
    assert partition_metadata.read_topic_id(tmp_path) == topic_id
    (tmp_path / "partition.metadata").write_text("")
    assert partition_metadata.read_topic_id(tmp_path) is None
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: jXszXF77Tk\0\0\0\0\0\0\0\0\0\0\0\0")
    assert partition_metadata.read_topic_id(tmp_path) is None, "torn by a power cut"
    (tmp_path / "partition.metadata").write_text("version: 1\ntopic_id: jXszXF77TkmMS5gaD-lLPA")
    with pytest.raises(partition_metadata.PartitionMetadataCorrupt, match=r"partition\.metadata"):
        partition_metadata.read_topic_id(tmp_path)


def test_meta_properties_as_kafka_writes_them(tmp_path: Path) -> None:
    text = (
        "#\n#Fri Nov 20 06:56:29 UTC 2026\nnode.id=1\ndirectory.id=jXszXF7nkpMS5gmD-lSPHg\nversion=1\n"
        f"cluster.id={CLUSTER}\n"
    )
    (tmp_path / "meta.properties").write_text(text)
    assert meta_properties.read(tmp_path) == MetaProperties(CLUSTER, 1, "jXszXF7nkpMS5gmD-lSPHg")


def test_directories_are_formatted_once_and_claimed_after(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    for directory in directories:
        directory.mkdir()
    first = meta_properties.claim(REAL_FILES, directories, 3, None)
    assert first[0].cluster_id == first[1].cluster_id
    assert first[0].directory_id != first[1].directory_id
    assert meta_properties.claim(REAL_FILES, directories, 3, None) == first
    with pytest.raises(LogDirectoryError, match=r"node 3; start it with node\.id=3"):
        meta_properties.claim(REAL_FILES, directories, 4, None)
    with pytest.raises(LogDirectoryError, match=f"not {CLUSTER}"):
        meta_properties.claim(REAL_FILES, directories, 3, CLUSTER)
    (directories[1] / "meta.properties").write_bytes((directories[0] / "meta.properties").read_bytes())
    with pytest.raises(LogDirectoryError, match="was it copied"):
        meta_properties.claim(REAL_FILES, directories, 3, None)


@pytest.mark.parametrize(
    "text", ["version=0\nbroker.id=1\n", "version=1\nnode.id=1\n", "version=1\ncluster.id=a\nnode.id=x\n"]
)
def test_meta_properties_that_cannot_be_used_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(LogDirectoryError, match=r"meta\.properties"):
        meta_properties.read(tmp_path)


def test_names() -> None:
    assert offset_file_name(62, ".log") == "00000000000000000062.log"
    assert offset_of_file("00000000000000000062.log.deleted") == 62
    assert offset_of_file("leader-epoch-checkpoint") is None
    flights = TopicPartition("a-b.c_d", 7)
    assert parse_directory_name("a-b.c_d-7") == (flights, "")
    marked = marked_directory_name(flights, DELETE_DIRECTORY_SUFFIX)
    assert parse_directory_name(marked) == (flights, "-delete")
    longest = TopicPartition("t" * 249, 99999)
    assert len(marked_directory_name(longest, DELETE_DIRECTORY_SUFFIX)) == 255
    parsed = parse_directory_name(marked_directory_name(longest, DELETE_DIRECTORY_SUFFIX))
    assert parsed is not None
    assert parsed.topic_partition.partition == 99999
    for other in ("lost+found", "a", "-1", "a-b", "a-1-delete/"):
        assert parse_directory_name(other) is None


def test_log_config_from_topic_configs() -> None:
    config = LogConfig.from_properties(
        {"segment.bytes": "1000", "cleanup.policy": "compact, delete", "preallocate": "true", "x": "y"},
        LogConfig(retention_ms=5),
    )
    assert (config.segment_bytes, config.preallocate, config.retention_ms) == (1000, True, 5)
    assert config.compacts
    assert config.deletes
    for name, value in (("segment.bytes", "many"), ("preallocate", "1")):
        with pytest.raises(ValueError, match=name):
            LogConfig.from_properties({name: value})
