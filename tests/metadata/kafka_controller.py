"""Apache Kafka's controller in a separate process (`KafkaController.java`), for one request at a time."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from kafka_node import java_command
from penstock.protocol.api_keys import response_class
from penstock.protocol.codec import Message
from penstock.protocol.record_serde import decode_metadata_record

SOURCE = Path(__file__).with_name("KafkaController.java")


class Decided(NamedTuple):
    """A controller's decision: its response, or an error's code and message, and the records."""

    response: object
    error: tuple[int, str] | None
    records: list[Message]


class KafkaController:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, request: Message, version: int) -> Decided:
        """Send a request and return the controller's decision, whose records Kafka's controller replays."""
        name = type(request).__name__.removesuffix("Request")
        lines = self._command(f"{name} {version} {request.encode(version).hex()}")
        decided = self._decided(lines)
        if isinstance(decided.response, str):
            data = bytes.fromhex(decided.response)
            response, _ = response_class(request.ID).decode(version, data)
            return decided._replace(response=response)
        return decided

    def tell(self, *words: object) -> Decided:
        """Send a command that is no request."""
        return self._decided(self._command(" ".join(map(str, words))))

    def _decided(self, lines: list[str]) -> Decided:
        response, error, records = None, None, []
        for line in lines:
            kind, _, rest = line.partition(" ")
            if kind == "R":
                response = rest
            elif kind == "E":
                code, _, message = rest.partition(" ")
                error = (int(code), message)
            else:
                records.append(decode_metadata_record(bytes.fromhex(rest))[0])
        return Decided(response, error, records)

    def _command(self, line: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        lines = []
        while (answer := self._process.stdout.readline()) != ".\n":
            assert answer, "the controller's process has ended"
            lines.append(answer.rstrip("\n"))
        return lines


@contextmanager
def kafka_controller(libs: Path) -> Iterator[KafkaController]:
    """A controller without brokers and topics."""
    process = subprocess.Popen(
        java_command(libs, str(SOURCE)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield KafkaController(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


class JavaRandom(Random):
    """The methods of java.util.Random that placement uses."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.scramble(seed)

    def scramble(self, seed: int) -> None:
        """Reset the state, as `Random.setSeed` does."""
        self._bits = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def _next(self, bits: int) -> int:
        self._bits = (self._bits * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return self._bits >> (48 - bits)

    def _randbelow(self, n: int) -> int:
        """`Random.nextInt`, on which `randrange` and `shuffle` are built, as in Java."""
        if n & (n - 1) == 0:
            return (n * self._next(31)) >> 31
        while True:
            bits = self._next(31)
            value = bits % n
            if bits - value + (n - 1) < 1 << 31:
                return value
