"""Every version of every message compared with Apache Kafka's own classes, if its jars and a JDK exist."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from message_values import all_message_versions, messages

from kafka_node import java_command
from long_run import repetitions
from penstock.protocol.codec import Message

PROGRAM = Path(__file__).parent / "ReencodeMessages.java"
EXAMPLES = repetitions("PENSTOCK_MESSAGE_EXAMPLES", gate=2, long=20)


def encoded_examples(name: str, version: int) -> list[str]:
    """Lines of name, version and bytes; the same ones in every run."""
    lines: list[str] = []

    @seed(431)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(name, version))
    def collect(message: Message) -> None:
        lines.append(f"{name} {version} {message.encode(version).hex()}")

    collect()
    return lines


def require_compiler() -> None:
    java = shutil.which("java")
    if java is None:
        pytest.skip("java is not installed")
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler" not in modules:
        pytest.skip("java has no compiler (a JRE, not a JDK)")


@pytest.mark.kafka
@pytest.mark.longer
@pytest.mark.timeout(600)
def test_apache_kafka_encodes_the_same_bytes(kafka_libs: Path) -> None:
    require_compiler()
    lines = [line for name, version in all_message_versions() for line in encoded_examples(name, version)]
    answer = subprocess.run(
        java_command(kafka_libs, str(PROGRAM)),
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=500,
    )
    differing = [
        f"{line}\n  Apache Kafka: {theirs}"
        for line, theirs in zip(lines, answer.stdout.splitlines(), strict=True)
        if line.split(" ")[2] != theirs
    ]
    assert not differing, "\n".join(differing[:10])
