"""Apache Kafka's decisions about tokens, by KafkaTokens.java."""

from pathlib import Path

from kafka_node import run_java


def kafkas_answers(libs: Path, scratch: Path, commands: list[str]) -> list[list[str]]:
    file = scratch / "commands"
    file.write_text("\n".join(commands))
    source = Path(__file__).with_name("KafkaTokens.java")
    answers = run_java(libs, str(source), str(file), timeout_s=500)
    return [answer.split("\t") for answer in answers.removesuffix("\n").split("\n")]
