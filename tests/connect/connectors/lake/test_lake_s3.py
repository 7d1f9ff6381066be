"""The lake's sinks on S3, by moto's server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lake_sinks import IcebergTables

from penstock.connect import ConnectError, SinkTaskTest

KEYS = ("penstock", "secret")
BUCKET = "lake"


SERVER = (
    "import threading\n"
    "from moto.server import ThreadedMotoServer\n"
    "server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)\n"
    "server.start()\n"
    "print('http://{}:{}'.format(*server.get_host_and_port()), flush=True)\n"
    "threading.Event().wait()\n"
)
"""A process of its own, because delta-rs waits for S3 without letting other threads of Python run."""


@pytest.fixture
def s3() -> Iterator[str]:
    """The URL of a server with one bucket."""
    pytest.importorskip("moto", reason="moto[server] is not installed")
    import boto3

    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            client = boto3.client(
                "s3",
                endpoint_url=url,
                region_name="us-east-1",
                aws_access_key_id=KEYS[0],
                aws_secret_access_key=KEYS[1],
            )
            client.create_bucket(Bucket=BUCKET)
            yield url
        finally:
            server.kill()


@pytest.mark.long
def test_files_on_s3(s3: str) -> None:
    obstore = pytest.importorskip("obstore", reason="the extra objects is not installed")
    from obstore.store import S3Store

    from penstock.connect.connectors.lake.objects import ObjectsSinkTask

    config = {
        "s3.bucket.name": BUCKET,
        "s3.region": "us-east-1",
        "store.url": s3,
        "aws.access.key.id": KEYS[0],
        "aws.secret.access.key": KEYS[1],
        "flush.size": "2",
    }
    with SinkTaskTest(ObjectsSinkTask(), config) as test:
        for number in range(4):
            test.put("a", {"n": number})
        test.commit()
        assert test.committed("a") == 4
    with SinkTaskTest(ObjectsSinkTask(), {**config, "s3.bucket.name": "none"}) as test:
        test.put("a", {"n": 0})
        with pytest.raises(ConnectError, match="bucket does not exist"):
            test.put("a", {"n": 1})
    assert not test.committed("a")
    store = S3Store(
        BUCKET,
        endpoint=s3,
        region="us-east-1",
        access_key_id=KEYS[0],
        secret_access_key=KEYS[1],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    paths = sorted(each["path"] for each in obstore.list(store).collect())
    assert paths == [f"topics/a/partition=0/a+0+000000000{first}.snappy.parquet" for first in (0, 2)]


@pytest.mark.long
def test_a_delta_table_on_s3(s3: str) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra lake is not installed")
    from penstock.connect.connectors.lake.delta import DeltaSinkTask

    storage = {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": KEYS[0],
        "AWS_SECRET_ACCESS_KEY": KEYS[1],
    }
    config = {
        "delta.table": f"s3://{BUCKET}/tables/${{topic}}",
        "delta.commit.interval.ms": "0",
        "delta.partition.fields": "part",
        **{f"delta.storage.{name}": value for name, value in storage.items()},
    }
    with SinkTaskTest(DeltaSinkTask(), config) as one, SinkTaskTest(DeltaSinkTask(), config) as other:
        for number in range(4):
            one.put("a", {"n": number, "part": "x"}, partition=0)
            other.put("a", {"n": 10 + number, "part": "x y"}, partition=1)
        one.restart(DeltaSinkTask())
        one.step()
    table = deltalake.DeltaTable(f"s3://{BUCKET}/tables/a", storage_options=storage)
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == [0, 1, 2, 3, 10, 11, 12, 13]


@pytest.mark.long
def test_an_iceberg_table_on_s3(s3: str, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg", reason="the extra lake is not installed")
    tables = IcebergTables(tmp_path)
    tables.properties = {
        **tables.properties,
        "warehouse": f"s3://{BUCKET}/warehouse",
        "s3.endpoint": s3,
        "s3.region": "us-east-1",
        "s3.access-key-id": KEYS[0],
        "s3.secret-access-key": KEYS[1],
    }
    with SinkTaskTest(tables.task(), tables.config("numbers")) as test:
        for number in range(3):
            test.put("a", {"n": number})
        test.restart(tables.task())
        test.step()
    assert sorted(row["n"] for row in tables.rows("numbers")) == [0, 1, 2]
