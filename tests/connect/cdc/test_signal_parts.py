"""Keys in Java's serialization against Java itself, and the pure parts of signals and their snapshots."""

import os
import random
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from long_run import repetitions
from penstock.connect.cdc.notifications import NotificationSettings
from penstock.connect.cdc.postgres.incremental.visibility import Visibility
from penstock.connect.cdc.signals import ChunkWindow, DataCollection, Progress, Signal, SnapshotRequest
from penstock.connect.cdc.signals.channels import FileChannel
from penstock.connect.cdc.signals.java_arrays import read_array, write_array
from penstock.connect.errors import ConfigInvalid

ORACLE = Path(__file__).parent / "JavaArrays.java"
SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
ARRAYS = repetitions("PENSTOCK_ARRAYS", 2000, 50_000)
CHARACTERS = "aZ0 é日😀\x00\n'\\"


def described(value: Any) -> str:
    if value is None:
        return "n"
    if isinstance(value, bool):
        return f"z{int(value)}"
    if isinstance(value, int):
        return f"{'i' if -(2**31) <= value < 2**31 else 'j'}{value}"
    return "s" + str(value).encode("utf-16-be").hex()


def java(lines: list[str]) -> list[list[str]]:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", str(ORACLE)]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return [line.split(" ") for line in done.stdout.splitlines()]


def test_an_array_that_java_wrote() -> None:
    written = (
        "ACED0005757200135B4C6A6176612E6C616E672E4F626A6563743B90CE589F1073296C02000078700000000473720011"
        "6A6176612E6C616E672E496E746567657212E2A0A4F781873802000149000576616C7565787200106A6176612E6C616E"
        "672E4E756D62657286AC951D0B94E08B0200007870000003E87372000E6A6176612E6C616E672E4C6F6E673B8BE490CC"
        "8F23DF0200014A000576616C75657871007E000300000001A13B860074000178" + "70"
    )
    values = (1000, 7_000_000_000, "x", None)
    assert read_array(written) == values
    assert write_array(values) == written.lower()


@pytest.mark.long
def test_arrays_as_java() -> None:
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)

    def value() -> Any:
        kind = rng.randrange(5)
        text = "".join(rng.choices(CHARACTERS, k=rng.choice([0, 1, 5, 300])))
        return [None, rng.random() < 0.5, rng.randint(-300, 300), rng.randint(-(2**63), 2**63 - 1), text][
            kind
        ]

    arrays = [[value() for _ in range(rng.randrange(5))] for _ in range(ARRAYS)]
    arrays.append(["x" * 70_000, 1])
    lines = [f"{','.join(map(described, each))} {write_array(each)}" for each in arrays]
    others = {
        f"h7,h-2,d0.5,u{uuid.UUID(int=5)},u{uuid.UUID(int=2**127 + 1)} ": (
            *(7, -2, 0.5, str(uuid.UUID(int=5))),
            str(uuid.UUID(int=2**127 + 1)),
        )
    }
    answers = java(lines + list(others))
    equal = 0
    for each, (theirs, is_equal) in zip(arrays, answers, strict=False):
        assert is_equal == "true", each
        assert read_array(theirs) == tuple(each)
        assert read_array(write_array(each)) == tuple(each)
        equal += theirs == write_array(each)  # not if Java has one object for two small numbers
    assert equal > len(arrays) / 2
    assert [read_array(theirs) for theirs, _ in answers[len(arrays) :]] == list(others.values())


def test_arrays_that_are_not_known() -> None:
    whole = write_array(["text", 5, None])
    assert read_array(write_array(None)) is None
    for text in ("", "00", "ACED0005", whole[:-2], whole[:60], "ACED00057300", "ACED0005" + "74000161"):
        with pytest.raises(ValueError, match=r"serialized|ends|known|expected|damaged"):
            read_array(text)


def test_progress_in_offsets() -> None:
    tables = [DataCollection("public.a", "id > 3"), DataCollection("public.b", "", "code")]
    progress = Progress(tables, (5, "x"), (9, "z"), "signal", True, [DataCollection("public.c")])
    assert Progress.of(progress.offset()) == progress
    assert Progress.of({}) == Progress()
    damaged = {**progress.offset(), "incremental_snapshot_primary_key": "00"}
    assert Progress.of(damaged).sent is None
    assert progress.remove(["public.a", "public.x"]) == ["public.a"]
    assert (progress.sent, progress.maximum) == (None, None)


@pytest.mark.parametrize(
    ("xid", "shown"), [(4, True), (6, False), (7, True), (10, False), (12, False), (2**32 - 1, True)]
)
def test_visibility(xid: int, shown: bool) -> None:
    epoch = 3 * 2**32
    visibility = Visibility.of(f"{epoch + 5}:{epoch + 10}:{epoch + 5},{epoch + 6}")
    assert visibility.shows(xid) is shown
    assert Visibility.of(f"{epoch - 2}:{epoch - 1}:").shows(0) is False


def test_windows_keep_the_order() -> None:
    window: ChunkWindow[str] = ChunkWindow()
    for key, row in [("x", "1"), ("y", "2"), ("x", "3"), (None, "4")]:
        window.add(key, row)
    assert window.take() == "1"
    assert window.discard("x")
    assert not window.discard("x")
    assert [window.take(), window.take(), len(window)] == ["2", "4", 0]


def test_requests() -> None:
    signal = Signal.of(
        "1",
        "execute-snapshot",
        """{"data-collections": ["public.a.*", "other.b"], "type": "BLOCKING", "surrogate-key": " ",
            "additional-conditions": [{"data-collection": "PUBLIC.AB", "filter": "x"}, {"filter": "y"}]}""",
    )
    assert signal is not None
    request = SnapshotRequest.of(signal)
    assert request is not None
    assert request.is_blocking
    assert request.surrogate_key is None
    assert request.expanded(["public.a", "public.ab", "public.c"]) == ["public.a", "public.ab", "other.b"]
    assert [request.condition("public.ab"), request.condition("public.a")] == ["x", ""]
    assert SnapshotRequest.of(Signal("1", "execute-snapshot", {})) is None
    assert SnapshotRequest.of(Signal("1", "stop-snapshot", {"type": "other"})) is None
    assert Signal.of("1", "log", "{") is None
    assert Signal.of("1", "log", "[1]") is None


def test_a_file_of_signals(tmp_path: Path) -> None:
    channel = FileChannel(tmp_path / "signals")
    assert list(channel.read()) == []
    with (tmp_path / "signals").open("a") as file:
        file.write('{"id": "1", "type": "log", "data": {"message": "m"}}\n{"id": "2", "ty')
        file.flush()
        assert [each.id for each in channel.read()] == ["1"]
        file.write('pe": "log"}\nnothing\n')
        file.flush()
        assert [each.id for each in channel.read()] == ["2"]
    channel.acknowledge()
    assert (tmp_path / "signals").read_text() == ""


@pytest.mark.parametrize("channels", ["sink", "mail"])
def test_notification_settings(channels: str) -> None:
    with pytest.raises(ConfigInvalid, match="notification"):
        NotificationSettings.of({"notification.enabled.channels": channels})
