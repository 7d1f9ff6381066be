"""Asks Kafka's own converters, in a JVM, many questions at once."""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

from kafka_node import JAVA, compiled

TIMEOUT_S = 600


def seed() -> int:
    """The seed of a random test, which prints it."""
    given = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={given}")
    return given


def answers(
    libs: Path, directory: Path, questions: list[dict[str, Any]], program: str = "KafkaConverters.java"
) -> list[Any]:
    """Return Java's answer to each question; {"error": …} if it raised an exception."""
    asked, answered = directory / "questions", directory / "answers"
    asked.write_text("".join(json.dumps(question) + "\n" for question in questions), encoding="utf-8")
    sources = [Path(__file__).with_name(each) for each in dict.fromkeys(("KafkaConverters.java", program))]
    class_path = f"{libs}/*"
    for source in sources:
        class_path += f":{compiled(class_path, source)}"
    main = f"org.apache.kafka.connect.data.{sources[-1].stem}"
    command = [*JAVA, "-cp", class_path, main, str(asked), str(answered)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in answered.read_text().split("\n")[:-1]]
    assert len(found) == len(questions)
    return found


def is_error(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.keys() == {"error"}
