"""Which codecs the batches of a topic have on a node's disk."""

from pathlib import Path

from penstock.protocol.batch import iter_headers
from penstock.protocol.compression import Codec


def codecs_on_disk(data_dir: Path, topic: str) -> set[Codec]:
    """Codecs of all batches of a topic, read from its segment files."""
    segments = [path for path in data_dir.glob(f"{topic}-*/*.log") if path.stat().st_size]
    assert segments, f"nothing was written to {topic}"
    return {Codec(header.compression) for path in segments for _, header in iter_headers(path.read_bytes())}
