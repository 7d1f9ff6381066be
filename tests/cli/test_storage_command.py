"""`penstock storage`, read back by storage and, where it is available, by Apache Kafka's own tool."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.consensus.voters import Address, VoterSet
from penstock.metadata.image import MetadataDelta, MetadataImage
from penstock.metadata.snapshot import decode_snapshot
from penstock.protocol.messages import FeatureLevelRecord
from penstock.protocol.uuids import uuid_from_text, uuid_to_text
from penstock.security.scram import ScramMechanism, credential, salted_password
from penstock.storage.directories import meta_properties

DIRECTORY_IDS = ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA")
VOTERS = ",".join(f"{n}@127.0.0.1:{9000 + n}:{directory}" for n, directory in enumerate(DIRECTORY_IDS, 1))
FIRST_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
ANN = "SCRAM-SHA-256=[name=ann,password=pencil]"


def storage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "storage", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def settings(directory: Path, **others: str) -> list[str]:
    """The properties of a node that is broker and controller, as options."""
    properties = {
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9001",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9001,127.0.0.1:9002,127.0.0.1:9003",
    }
    properties |= {name.replace("_", "."): value for name, value in others.items()}
    return [word for name, value in properties.items() for word in ("--set", f"{name}={value}")]


def test_format_with_initial_controllers(tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = storage("format", "-t", "a-cluster", "--initial-controllers", VOTERS, *settings(data, node_id="2"))
    assert done.returncode == 0, done.stderr
    assert f"Formatting dynamic metadata voter directory {data} with metadata.version 4.3-IV0." in done.stdout
    properties = meta_properties.read(data)
    assert properties == ("a-cluster", 2, DIRECTORY_IDS[1])
    quorum = decode_snapshot((data / FIRST_SNAPSHOT).read_bytes()).quorum
    assert quorum.kraft_version == 1
    assert quorum.voters is not None
    voters = list(VoterSet.from_record(quorum.voters))
    assert [uuid_to_text(voter.key.directory_id) for voter in voters] == list(DIRECTORY_IDS)
    assert [voter.endpoints for voter in voters] == [
        {"CONTROLLER": Address("127.0.0.1", port)} for port in (9001, 9002, 9003)
    ]


def test_standalone_and_its_features(tmp_path: Path) -> None:
    done = storage("format", "-t", "c", "-s", "-r", "4.0", "-f", "transaction.version=1", *settings(tmp_path))
    assert done.returncode == 0, done.stderr
    properties = meta_properties.read(tmp_path)
    assert properties is not None
    quorum = decode_snapshot((tmp_path / FIRST_SNAPSHOT).read_bytes()).quorum
    assert quorum.voters is not None
    (voter,) = quorum.voters.voters
    assert voter.voter_directory_id == uuid_from_text(properties.directory_id)
    records = decode_snapshot((tmp_path / "bootstrap.checkpoint").read_bytes()).records
    assert records[:1] == [FeatureLevelRecord(name="metadata.version", feature_level=25)]
    assert FeatureLevelRecord(name="transaction.version", feature_level=1) in records


def test_a_directory_that_is_to_join_has_no_voters(tmp_path: Path) -> None:
    done = storage("format", "-t", "c", "--no-initial-controllers", *settings(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / FIRST_SNAPSHOT).exists()


def test_users_are_among_the_first_records(tmp_path: Path) -> None:
    given = 'SCRAM-SHA-512=[name=bert,iterations=8192,salt="N3E=",saltedpassword="YCE="]'
    done = storage("format", "-t", "c", "-s", "-S", ANN, "--add-scram", given, *settings(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "pencil" not in done.stdout
    content = (tmp_path / "bootstrap.checkpoint").read_bytes()
    assert b"pencil" not in content
    image = MetadataImage()
    for record in decode_snapshot(content).records:
        image.replay(record, MetadataDelta())
    kept = image.scram.credential(ScramMechanism.SCRAM_SHA_256, "ann")
    assert kept is not None
    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "pencil", kept.salt, 4096)
    assert kept == credential(ScramMechanism.SCRAM_SHA_256, kept.salt, salted, 4096)
    assert image.scram.credential(ScramMechanism.SCRAM_SHA_512, "bert") == credential(
        ScramMechanism.SCRAM_SHA_512, b"7q", b"`!", 8192
    )


@pytest.mark.parametrize(
    "argument",
    [
        "SCRAM-SHA-256=[name=ann,password=one,pencil]",
        "SCRAM-SHA-256[name,pencil]",
        "SCRAM-SHA-256=[name=ann,salt=N3E=,saltedpassword=pencil!]",
        "SCRAM-SHA-256=[name=ann,password=pencil,iterations=1]",
    ],
)
def test_no_complaint_shows_a_part_of_a_password(tmp_path: Path, argument: str) -> None:
    done = storage("format", "-t", "c", "-s", "-S", argument, *settings(tmp_path / "data"))
    assert done.returncode == 1
    assert "--add-scram" in done.stderr
    assert "pencil" not in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "others", "complaint"),
    [
        ([], {}, "you must specify one of the following"),
        (["-s", "-N"], {}, "Only one of"),
        (["-I", "1@h:x:y"], {}, "expected id@host:port:directory-id, found '1@h:x:y'"),
        (["-s"], {"controller_quorum_voters": "1@127.0.0.1:9001"}, "cannot specify controller.quorum.voters"),
        (["-s", "-r", "2.8"], {}, "Unknown metadata.version '2.8'"),
        (["-s", "-f", "x.version=1"], {}, "Unsupported feature: x.version"),
        (["-s", "-f", "kraft.version=0"], {}, "kraft.version cannot be 0"),
        (["-s", "-f", "transaction.version=9"], {}, "transaction.version 9 is not supported"),
        (["-s", "-r", "3.4", "-S", ANN], {}, "SCRAM is only supported in metadata.version 3.5-IV2 or later."),
        (["-s", "-S", "PLAIN=[name=ann,password=x]"], {}, "add-scram mechanism PLAIN is not supported."),
        (["-s", "-S", "SCRAM-SHA-256=[password=x]"], {}, "--add-scram: You must supply 'name' to add-scram"),
        (["-s"], {"process_roles": "broker", "listeners": "PLAINTEXT://h:1"}, "--standalone on a controller"),
    ],
)
def test_what_cannot_be_formatted(
    tmp_path: Path, arguments: list[str], others: dict[str, str], complaint: str
) -> None:
    done = storage("format", "-t", "c", *arguments, *settings(tmp_path / "data", **others))
    assert done.returncode == 1
    assert complaint in done.stderr
    assert not (tmp_path / "data").exists()


def test_what_is_formatted_stays_as_it_is(tmp_path: Path) -> None:
    assert storage("format", "-t", "c", "-s", *settings(tmp_path)).returncode == 0
    before = meta_properties.read(tmp_path)
    again = storage("format", "-t", "c", "-s", *settings(tmp_path))
    assert again.returncode == 1
    assert "is already formatted" in again.stderr
    other = storage("format", "-t", "d", "-s", "-g", *settings(tmp_path))
    assert "belongs to node 1 of cluster c, expected node 1 of cluster d" in other.stderr
    ignored = storage("format", "-t", "c", "-s", "-g", *settings(tmp_path))
    assert ignored.stdout == "All of the log directories are already formatted.\n"
    assert meta_properties.read(tmp_path) == before


def test_info(tmp_path: Path) -> None:
    new = storage("info", *settings(tmp_path))
    assert new.returncode == 1
    assert f"{tmp_path} is not formatted." in new.stdout
    storage("format", "-t", "c", "-s", *settings(tmp_path))
    formatted = storage("info", *settings(tmp_path))
    assert formatted.returncode == 0
    assert "cluster.id=c" in formatted.stdout


def test_random_uuid() -> None:
    first, second = (storage("random-uuid").stdout.strip() for _ in range(2))
    assert first != second
    assert len(uuid_from_text(first)) == 16
