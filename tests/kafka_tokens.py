"""Apache Kafka's decisions about tokens, by KafkaTokens.java."""

import subprocess
from pathlib import Path

from kafka_node import JAVA_COMPILER_HEAP, run_java


def kafkas_answers(libs: Path, scratch: Path, commands: list[str]) -> list[list[str]]:
    file = scratch / "commands"
    file.write_text("\n".join(commands))
    source = Path(__file__).with_name("KafkaTokens.java")
    compiler = ["javac", JAVA_COMPILER_HEAP, "-nowarn", "-cp", f"{libs}/*", "-d", scratch, source]
    subprocess.run(compiler, check=True)
    answers = run_java(libs, "-cp", f"{scratch}:{libs}/*", "KafkaTokens", str(file), timeout_s=500)
    return [answer.split("\t") for answer in answers.removesuffix("\n").split("\n")]
