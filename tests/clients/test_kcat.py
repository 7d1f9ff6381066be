"""kcat (from Debian, with its own librdkafka) with its default settings."""

import shutil
import subprocess
import uuid

import pytest
from codec_on_disk import codecs_on_disk

from penstock.protocol.compression import Codec
from penstock.testing import Cluster

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is missing: apt install kcat")


def kcat(*arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", [None, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_arrive_as_compressed_as_they_were_sent(
    penstock_cluster: Cluster, codec: Codec | None
) -> None:
    """kcat compresses only if Produce is advertised from version 0 (KAFKA-18659)."""
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"kcat-{uuid.uuid4().hex}"
    lines = "".join(
        f"{number}:a line that repeats itself, a line that repeats itself\n" for number in range(300)
    )
    compression = [] if codec is None else ["-z", codec.name.lower()]
    kcat("-b", bootstrap, "-P", "-t", topic, "-K", ":", *compression, stdin=lines)
    found = kcat("-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-K", ":")
    assert found == lines
    assert codecs_on_disk(penstock_cluster.data_dir, topic) == {codec or Codec.NONE}


def test_metadata_and_offsets(penstock_cluster: Cluster) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"kcat-{uuid.uuid4().hex}"
    kcat("-b", bootstrap, "-P", "-t", topic, stdin="a\nb\nc\n")
    assert f'topic "{topic}" with 1 partitions' in kcat("-b", bootstrap, "-L", "-t", topic)
    assert "offset 3" in kcat("-b", bootstrap, "-Q", "-t", f"{topic}:0:-1")
    assert kcat("-b", bootstrap, "-C", "-t", topic, "-o", "-1", "-e", "-q") == "c\n"
