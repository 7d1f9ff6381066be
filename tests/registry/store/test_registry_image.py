"""Queries of the image in several threads while records are replayed."""

from __future__ import annotations

import threading

import pytest

from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.follower import Committed
from penstock.protocol.records import Record, encode_batch
from penstock.registry.store.image import Image, NotRead
from penstock.registry.subjects import Registry, RequestRefused
from penstock.registry.subjects.records import noop_record

TP = TopicPartition("_schemas", 0)
DEADLINE_S = 30


class Log:
    """The topic as the follower delivers it, without a follower."""

    def __init__(self) -> None:
        config = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:1"})
        self.image = Image(config, TP.topic, Registry)
        self.registry = Registry()
        self.end = 0
        self.image.begin(TP, 0)

    def append(self, *records: tuple[bytes, bytes | None]) -> None:
        told = [Record(0, 0, key, value) for key, value in records]
        batch = memoryview(encode_batch(told, self.end))
        self.end += len(records)
        self.image.take({TP: Committed([batch], self.end, self.end)})

    def put(self, subject: str, schema: str) -> None:
        decision = self.image.read(lambda registry: registry.register(subject, {"schema": schema}))
        self.append(*((each.key, each.value) for each in decision.records))


@pytest.fixture
def log() -> Log:
    log = Log()
    with pytest.raises(NotRead):
        log.image.read(Registry.subjects)
    noop = noop_record()
    log.append((noop.key, noop.value))
    return log


def test_a_question_that_takes_long_keeps_nobody_waiting(log: Log) -> None:
    log.put("s", '"int"')
    asked, answered = threading.Event(), threading.Event()
    told: list[list[str]] = []

    def slow(registry: Registry) -> list[str]:
        found: list[str] = registry.subjects()
        asked.set()
        assert answered.wait(DEADLINE_S)
        return found

    thread = threading.Thread(target=lambda: told.append(log.image.read(slow)))
    thread.start()
    assert asked.wait(DEADLINE_S)
    assert log.image.read(Registry.subjects) == ["s"]
    log.put("t", '"long"')
    assert log.image.read(Registry.subjects) == ["s", "t"]
    answered.set()
    thread.join(DEADLINE_S)
    assert told == [["s", "t"]], "it was put again, as there was more to know"


def test_a_question_is_put_again_until_nothing_is_replayed_in_its_midst(log: Log) -> None:
    times = 0

    def disturbed(registry: Registry) -> list[str]:
        nonlocal times
        times += 1
        if times <= 3:
            log.put(f"s{times}", '"int"')
        if times == 2:
            raise KeyError("torn")
        return registry.subjects()

    assert log.image.read(disturbed) == ["s1", "s2", "s3"]
    assert times == 4


def test_what_is_refused_is_told_at_once(log: Log) -> None:
    times = 0

    def refused(registry: Registry) -> object:
        nonlocal times
        times += 1
        return registry.versions("s")

    with pytest.raises(RequestRefused):
        log.image.read(refused)
    assert times == 1


def test_what_was_parsed_before_a_removal_is_not_kept(log: Log) -> None:
    log.put("s", '"int"')
    parser = log.image.read(lambda registry: registry._state.parser)
    value = log.image.read(lambda registry: registry._state.image.find("s", 1))
    assert value is not None
    parse = parser._parse

    def interrupted(*asked: object, **options: object) -> object:
        found = parse(*asked, **options)
        parser._forget()
        return found

    parser._parse = interrupted
    assert parser.stored(value) is not parser.stored(value)
    parser._parse = parse
    assert parser.stored(value) is parser.stored(value)
