"""The codecs of a topic's batches on a node's disk."""

from pathlib import Path

from penstock.protocol.batch import iter_headers
from penstock.protocol.compression import Codec


def codecs_on_disk(data_dir: Path, topic: str) -> set[Codec]:
    """The codecs of all batches of a topic, read from its segment files."""
    segments = [path for path in data_dir.glob(f"{topic}-*/*.log") if path.stat().st_size]
    assert segments, f"nothing was written to {topic}"
    return {Codec(header.compression) for path in segments for _, header in iter_headers(path.read_bytes())}
