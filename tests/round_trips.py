"""Records through clients that others wrote, with the settings that a test gives them."""

import asyncio
import json
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from kafka_node import run_java

COUNT = 500
TIMEOUT_S = 30
RECORDS = [(b"key %d" % number, b"value %d " % number * 10) for number in range(COUNT)]
JAVA_COUNT = 2000


def by_confluent_kafka(settings: dict[str, str | int], topic: str) -> None:
    producer = Producer(settings)
    for key, value in RECORDS:
        producer.produce(topic, value, key)
    assert producer.flush(TIMEOUT_S) == 0
    assert consumed_by_confluent_kafka(settings, topic) == set(RECORDS)


def consumed_by_confluent_kafka(settings: dict[str, str | int], topic: str) -> set[tuple[Any, Any]]:
    """The records of a topic, by a new group; as many as in RECORDS."""
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: set[tuple[Any, Any]] = set()
    while len(found) < COUNT:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        found.add((message.key(), message.value()))
    consumer.close()
    return found


def by_aiokafka(settings: dict[str, Any], topic: str) -> None:
    async def story() -> None:
        async with AIOKafkaProducer(**settings) as producer:
            for ack in [await producer.send(topic, key=key, value=value) for key, value in RECORDS]:
                await ack
        found = []
        async with AIOKafkaConsumer(
            topic, **settings, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            while len(found) < COUNT:
                record = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
                found.append((record.key, record.value))
        assert sorted(found) == sorted(RECORDS)

    asyncio.run(story())


def by_kafka_python(settings: dict[str, str], topic: str) -> None:
    producer = KafkaProducer(**settings)
    sent = [producer.send(topic, key=key, value=value) for key, value in RECORDS]
    for future in sent:
        future.get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
    found = []
    for record in consumer:
        found.append((record.key, record.value))
        if len(found) == COUNT:
            break
    consumer.close()
    assert sorted(found) == sorted(RECORDS)


def by_java(libs: Path, bootstrap: str, properties: Path, topic: str) -> None:
    """Kafka's verifiable producer and consumer, with the properties in a file."""
    tools = "org.apache.kafka.tools"
    common = ["--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", str(JAVA_COUNT)]
    common += ["--command-config", str(properties)]
    produced = run_java(libs, f"{tools}.VerifiableProducer", *common)
    events = [json.loads(line) for line in produced.splitlines()]
    assert sum(event["name"] == "producer_send_success" for event in events) == JAVA_COUNT
    consumed = run_java(libs, f"{tools}.VerifiableConsumer", *common, "--group-id", topic)
    counts = [e["count"] for e in map(json.loads, consumed.splitlines()) if e["name"] == "records_consumed"]
    assert sum(counts) == JAVA_COUNT
