"""Complete files: which are read, in which order, what is stored of them, and what happens to them then."""

import bz2
import gzip
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from penstock.connect import ConnectError, DataError, SourceTaskTest
from penstock.connect.connectors.files import FilesSourceConnector
from penstock.connect.connectors.files.source.identity import CompleteFile
from penstock.connect.connectors.files.source.task import FilesSourceTask


def config_of(path: Path, **more: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return {"input.path": str(path), "topic": "lines", "empty.poll.wait.ms": "1"} | given


def run(config: dict[str, str]) -> SourceTaskTest:
    return SourceTaskTest(FilesSourceTask(), config)


def values(test: SourceTaskTest, count: int) -> list[str]:
    return [record.value for record in test.take(count)]


def test_files_are_found_in_order(tmp_path: Path) -> None:
    for number, name in enumerate(("b.txt", "a.txt", "deep/er/c.txt", ".hidden", "d.csv", "done/e.txt")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
        os.utime(path, (number, number))
    with run(config_of(tmp_path, input_file_pattern=r".*\.txt")) as test:
        assert values(test, 2) == ["a.txt", "b.txt"]
        (tmp_path / "0.txt").write_text("later\n")
        assert values(test, 1) == ["later"]
    config = config_of(
        tmp_path,
        input_file_pattern=r".*\.txt",
        files_sort_attributes="LastModifiedDesc",
        finished_path=str(tmp_path / "done"),
    )
    with run(config | {"input.path.walk.recursively": "true", "file.minimum.age.ms": "3600000"}) as test:
        assert values(test, 3) == ["deep/er/c.txt", "a.txt", "b.txt"]
    with run(config_of(tmp_path / "**" / "?.txt")) as test:
        assert len(values(test, 5)) == 5


def test_a_file_with_a_link_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("b\n")
    (tmp_path / "a.txt").symlink_to("b.txt")
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "c.txt").write_text("c\n")
    (tmp_path / "d.txt").symlink_to("else/c.txt")
    (tmp_path / "e.txt").symlink_to("else/c.txt")
    with run(config_of(tmp_path, metadata_location="HEADERS")) as test:
        assert values(test, 2) == ["b", "c"]
        assert test.poll() == []
        names = [header.value for record in test.records for header in record.headers]
        assert names[1::3] == ["b.txt", "d.txt"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_end_of_a_line_may_be_added_later(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(f"1{end}2".encode())
    with run(config_of(path)) as test:
        assert values(test, 2) == ["1", "2"]
        with path.open("ab") as file:
            file.write(f"{end}{end}3{end}".encode())
        assert values(test, 2) == ["", "3"]


def test_tasks_share_files(tmp_path: Path) -> None:
    class Context:
        def configs(self) -> dict[str, str]:
            return config_of(tmp_path)

    for number in range(40):
        (tmp_path / str(number)).write_text(f"{number}\n")
    connector = FilesSourceConnector()
    connector.context = Context()  # type: ignore[assignment]
    found = []
    for config in connector.task_configs(3):
        with run(dict(config)) as test:
            test.poll()
            while test.poll():
                pass
            assert test.records
            found += [record.value for record in test.records]
    assert sorted(found, key=int) == [str(number) for number in range(40)]


def test_a_file_is_read_once_unless_it_is_another(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\n2\n3\n")
    with run(config_of(tmp_path, batch_size="2")) as test:
        assert values(test, 1)[:1] == ["1"]
        test.restart(FilesSourceTask())
        assert values(test, 2)[-2:] == ["2", "3"] or len(test.records) == 3
        while test.poll():
            pass
        assert [record.value for record in test.records] == ["1", "2", "3"]
        test.restart(FilesSourceTask())
        assert test.poll() == []

        with path.open("a") as file:
            file.write("4\n")
        assert values(test, 1) == ["4"]
        test.restart(FilesSourceTask())
        assert test.poll() == []

        other = tmp_path / "a.new"
        other.write_text("1\n2\n3\n4\n")  # the same content, but another file
        os.utime(other, (1, 1))
        other.rename(path)
        assert values(test, 4) == ["1", "2", "3", "4"]
        path.write_text("1\n2\n9\n9\n9\n")  # longer, but not only by new lines
        assert values(test, 5) == ["1", "2", "9", "9", "9"]
        copy = tmp_path / "copy"
        shutil.copy2(path, copy)
        path.unlink()
        copy.rename(path)  # restored from a backup, with its time
        test.restart(FilesSourceTask())
        assert test.poll() == []


def test_files_are_cleaned_up_after_their_records_are_stored(tmp_path: Path) -> None:
    finished, failed = tmp_path / "finished", tmp_path / "failed"
    finished.mkdir()
    failed.mkdir()
    (tmp_path / "a.jsonl").write_text('{"a":1}\n')
    (tmp_path / "b.jsonl").write_text("")
    (tmp_path / "c.avro").write_text("no Avro")
    config = config_of(
        tmp_path,
        cleanup_policy="MOVE",
        finished_path=str(finished),
        error_path=str(failed),
        errors_tolerance="all",
    )
    with run(config) as test:
        assert test.take(1)[0].value == {"a": 1}
        while (tmp_path / "c.avro").exists():
            test.poll()
        assert sorted(each.name for each in finished.iterdir()) == ["a.jsonl", "b.jsonl"]
        (tmp_path / "a.jsonl").write_text('{"a":2}\n')  # a new file
        assert test.take(1)[0].value == {"a": 2}
        while (tmp_path / "a.jsonl").exists():
            test.poll()
    assert (finished / "a.jsonl.1").read_text() == '{"a":2}\n'
    assert [each.name for each in failed.iterdir()] == ["c.avro"]

    (tmp_path / "d.txt").write_text("x\n")
    with run(config_of(tmp_path / "*.txt", cleanup_policy="DELETE")) as test:
        test.take(1)
        while (tmp_path / "d.txt").exists():
            test.poll()


def test_bad_records_fail_the_task_or_are_dead_letters(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a":1}\nbad\n{"a":2}\n')
    with run(config_of(tmp_path)) as test:
        assert test.poll()[0].value == {"a": 1}
        with pytest.raises(DataError, match="Invalid JSON: 'bad'"):
            test.poll()
    config = config_of(tmp_path, errors_tolerance="all", errors_deadletterqueue_topic_name="dead")
    with run(config) as test:
        found = test.take(3)
        assert [(record.topic, record.value) for record in found] == [
            ("lines", {"a": 1}),
            ("dead", "bad"),
            ("lines", {"a": 2}),
        ]
        headers = {header.key: header.value for header in found[1].headers}
        assert headers["__connect.errors.file"] == str(tmp_path / "a.jsonl")
        assert headers["__connect.errors.position"] == "12"
        test.restart(FilesSourceTask())
        assert test.poll() == []
    with run(config_of(tmp_path, errors_tolerance="all", metadata_location="HEADERS")) as test:
        found = test.take(2)
        assert [record.value for record in found] == [{"a": 1}, {"a": 2}]
        assert {header.key: header.value for header in found[1].headers}["file.offset"] == 20


def test_values_that_need_each_other_are_checked() -> None:
    def errors(**more: str) -> dict[str, list[str]]:
        found = FilesSourceConnector().validate(config_of(Path("/x"), **more))
        return {each.name: each.errors for each in found if each.errors}

    assert errors() == {}
    assert list(errors(mode="tail", input_format="avro")) == ["mode"]
    assert list(errors(mode="tail", cleanup_policy="DELETE")) == ["cleanup.policy"]
    assert list(errors(cleanup_policy="MOVE")) == ["finished.path"]
    assert list(errors(csv_types="a", csv_quote_char="''", file_charset="utf-16")) == [
        "file.charset",
        "csv.quote.char",
        "csv.types",
    ]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, zstandard.compress])
def test_records_before_a_cut_come_and_then_the_error(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    def read_all() -> None:
        while path.exists():
            test.poll()

    path = tmp_path / "a.txt"
    chance = random.Random(1)
    lines = [f"{number} {chance.random()}" for number in range(300)]
    text = "".join(f"{line}\n" for line in lines).encode()
    # The second part is cut off: all of the first is readable.
    path.write_bytes(compress(text) + compress(text)[:-9])
    with run(config_of(tmp_path, cleanup_policy="DELETE")) as test:
        with pytest.raises(DataError, match="compressed data"):
            read_all()
        assert [record.value for record in test.records][:300] == lines
        assert path.exists()
    with run(config_of(tmp_path, errors_tolerance="all", cleanup_policy="DELETE")) as test:
        read_all()
        assert [record.value for record in test.records][:300] == lines


def test_a_file_that_changes_after_it_was_read_is_not_cleaned_up(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    with run(config_of(path, cleanup_policy="DELETE")) as test:
        assert [record.value for record in test.poll()] == ["one"]
        with path.open("a") as file:
            file.write("two\n")
        assert values(test, 1) == ["two"]
        (tmp_path / "new").write_text("three\n")
        (tmp_path / "new").rename(path)
        assert values(test, 1) == ["three"]
        while path.exists():
            test.poll()
        path.write_text("three\nfour\n")  # maybe with the same inode, but after the other was removed
        assert values(test, 2) == ["three", "four"]


def test_altered_offsets_must_belong_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\n2\n")
    with path.open("rb") as stream:
        offset = CompleteFile(stream).offset(2, False)
    connector, config, partition = FilesSourceConnector(), config_of(path), {"file": str(path)}
    assert connector.alter_offsets(config, [(partition, offset), (partition, None)])
    for wrong, message in (({"position": 2}, "no fingerprint"), ({**offset, "position": -1}, "0 or more")):
        with pytest.raises(ConnectError, match=message):
            connector.alter_offsets(config, [(partition, wrong)])
