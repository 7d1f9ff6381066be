"""Answers of a slow oracle, kept in a file beside the test that compares them with ours.

The gate reads the file. `make test-long` asks the oracle itself, and with PENSTOCK_REWRITE=1 stores its
answers. The file contains a hash of the questions, so that the gate detects changed cases.
"""

import hashlib
import lzma
import os
from collections.abc import Callable
from pathlib import Path

from long_run import IS_LONG


def recorded(path: Path, questions: str, ask: Callable[[], str]) -> str:
    """The oracle's answers to these questions, from the file at *path* (xz) or from the oracle itself."""
    digest = hashlib.sha256(questions.encode()).hexdigest()
    if not IS_LONG:
        known_digest, _, answers = lzma.decompress(path.read_bytes()).decode().partition("\n")
        assert known_digest == digest, (
            f"the cases have changed since {path.name} was recorded: "
            "run these tests with PENSTOCK_LONG=1 PENSTOCK_REWRITE=1"
        )
        return answers
    answers = ask()
    if os.environ.get("PENSTOCK_REWRITE"):
        path.write_bytes(lzma.compress(f"{digest}\n{answers}".encode(), preset=9))
    return answers


def compare(path: Path, conversation: str) -> None:
    """Compare a conversation with an oracle with the recorded one, or with PENSTOCK_REWRITE=1 record it."""
    if os.environ.get("PENSTOCK_REWRITE"):
        path.write_text(conversation)
    else:
        assert conversation == path.read_text()
