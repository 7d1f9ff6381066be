"""The objects of a store, here S3 by moto and a directory: each is read once, whatever is cut or crashes."""

import contextlib
import io
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connect import SourceTaskTest
from penstock.connect.connectors.objects import ObjectsSourceConnector
from penstock.connect.connectors.objects.task import ObjectsSourceTask

obstore = pytest.importorskip("obstore")

ROWS = 3000
LINES = 5000


class Bucket:
    """A bucket in S3's stand-in."""

    def __init__(self, endpoint: str, name: str) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
        self._store = obstore.store.S3Store(
            name,
            endpoint=endpoint,
            region="us-east-1",
            access_key_id="key",
            secret_access_key="secret",
            client_options={"allow_http": True},
        )
        self.config = {
            "aws.s3.bucket.name": name,
            "aws.s3.prefix": "in",
            "aws.s3.endpoint": endpoint,
            "aws.s3.region": "us-east-1",
            "aws.access.key.id": "key",
            "aws.secret.access.key": "secret",
            "topic": "objects",
            "store.poll.interval.ms": "1",
        }

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self._store, key, data)

    def delete(self, key: str) -> None:
        obstore.delete(self._store, key)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server_of = pytest.importorskip("moto.server", reason="moto[server] stands in for S3")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, request: pytest.FixtureRequest) -> Bucket:
    name: str = request.node.name
    return Bucket(endpoint, name.replace("_", "-")[:60].rstrip("-"))


def run(config: dict[str, str]) -> SourceTaskTest:
    return SourceTaskTest(ObjectsSourceTask(), config, exactly_once=True)


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(ROWS))}), out, row_group_size=500)
    return out.getvalue()


def test_objects_are_read_once(bucket: Bucket) -> None:
    bucket.put("in/b.parquet", parquet())
    bucket.put("in/a.jsonl", b'{"n":-2}\n{"n":-1}\n')
    bucket.put("other/c.jsonl", b"not below the prefix")
    with run(bucket.config | {"batch.size": "700"}) as test:
        test.poll()
        test.crash(ObjectsSourceTask())
        test.poll()
        test.restart(ObjectsSourceTask())
        while len(test.records) < ROWS + 2:
            test.poll()
        assert [record.value["n"] for record in test.records] == list(range(-2, ROWS))
        test.restart(ObjectsSourceTask())
        assert test.poll() == []
        bucket.put("in/a.jsonl", b'{"n":7}\n')  # written again: another object
        bucket.put("in/0.jsonl", b'{"n":8}\n')
        assert [record.value["n"] for record in test.take(2)] == [8, 7]
    with run(bucket.config | {"native.start.key": "a.jsonl", "input.file.pattern": ".*l$"}) as test:
        assert test.poll() == []


@pytest.mark.long
def test_an_object_that_changes_while_it_is_read_begins_again(bucket: Bucket) -> None:
    line = b'{"n":%d}' + b" " * 1000 + b"\n"
    bucket.put("in/a.jsonl", b"".join(line % number for number in range(LINES)))  # several requests
    with run(bucket.config) as test:
        assert test.poll()[0].value == {"n": 0}
        bucket.put("in/a.jsonl", b'{"n":-1}\n')
        while test.records[-1].value != {"n": -1}:
            test.poll()
        read = [record.value["n"] for record in test.records[:-1]]
        assert read == list(range(len(read)))
        bucket.put("in/b.jsonl", b"".join(line % number for number in range(LINES)))
        test.take(1000)
        bucket.delete("in/b.jsonl")
        while test.poll():
            pass


class Relay:
    """Passes connections on to a server, unless they are cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.bytes_left: float = float("inf")
        """Bytes of answers that pass before all is cut."""
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            for source, target, counts in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass, args=(source, target, counts), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with source, target, contextlib.suppress(OSError):
            while self.bytes_left > 0 and (data := source.recv(4096)):
                if counts:
                    self.bytes_left -= len(data)
                target.sendall(data)
            for each in (source, target):
                each.shutdown(socket.SHUT_RDWR)


@pytest.mark.long
def test_records_go_on_after_connections_were_cut(bucket: Bucket, endpoint: str) -> None:
    line = b'{"n":%d}' + b" " * 1000 + b"\n"
    bucket.put("in/a.jsonl", b"".join(line % number for number in range(LINES)))
    with (
        Relay(int(endpoint.rpartition(":")[2])) as relay,
        run(bucket.config | {"aws.s3.endpoint": relay.url}) as test,
    ):
        relay.bytes_left = 4_500_000  # in the middle of the second request
        while relay.bytes_left > 0:
            test.poll()
        test.poll()
        assert len(test.records) < LINES
        relay.bytes_left = float("inf")
        while len(test.records) < LINES:
            test.poll()
        assert [record.value["n"] for record in test.records] == list(range(LINES))


def test_a_store_must_be_named() -> None:
    found = ObjectsSourceConnector().validate({"topic": "t"})
    assert [each.errors for each in found if each.errors] == [
        ["A store needs either store.url or aws.s3.bucket.name."]
    ]


def test_a_directory_is_a_store_too(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.csv").write_text("id,name\n1,a\n")
    (tmp_path / "a.txt").write_text("line\n")
    config = {"store.url": f"file://{tmp_path}", "topic": "t", "csv.first.row.as.header": "true"}
    with run(config) as test:
        line, row = test.take(2)
        assert (line.value, row.value.to_dict()) == ("line", {"id": "1", "name": "a"})
