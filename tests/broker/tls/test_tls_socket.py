"""Sockets that encrypt: what goes in comes out, however the kernel cuts it, and handshakes fail clearly.

Each kind of socket passes the same tests. That for which the kernel encrypts needs a kernel that does; see
`kernel_tls_in_uml.py` for one that runs as a process.
"""

import asyncio
import os
import random
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
import trustme

from in_process import run
from penstock.broker.tls.direct_socket import DirectTlsSocket, KernelTlsSocket
from penstock.broker.tls.handshake import HandshakeFailed, NothingReceived, shake_hands
from penstock.broker.tls.kernel_support import OP_ENABLE_KTLS
from penstock.broker.tls.secured_socket import SecuredSocket
from penstock.broker.tls.tls_socket import PIECE_BYTES, TlsSocket

HOST = "localhost"
NOT_OFFLOADED_CIPHER = "ECDHE-ECDSA-AES128-SHA256"  # of TLS 1.2; no kernel has it
KINDS = {"memory": TlsSocket, "direct": DirectTlsSocket, "kernel": KernelTlsSocket}


class Contexts:
    """A server's context, a client's that trusts it, and one that does not, for a kind of socket."""

    def __init__(self, kind: str) -> None:
        self.kind = KINDS[kind]
        authority = trustme.CA()
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(HOST).configure_cert(self.server)
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(self.client)
        self.stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trustme.CA().configure_trust(self.stranger)
        for context in (self.server, self.client, self.stranger):
            if kind != "memory":
                context.options |= OP_ENABLE_KTLS
            if kind == "direct":
                context.maximum_version = ssl.TLSVersion.TLSv1_2
                context.set_ciphers(NOT_OFFLOADED_CIPHER)


@pytest.fixture(scope="module", params=KINDS)
def contexts(request: pytest.FixtureRequest) -> Contexts:
    contexts = Contexts(request.param)
    if request.param == "kernel" and not encrypts_in_kernel(contexts):
        pytest.skip("this machine's kernel, or its OpenSSL, has no kernel TLS")
    return contexts


def encrypts_in_kernel(contexts: Contexts) -> bool:
    """Whether a connection with these contexts is offloaded, here and now."""
    found = []

    async def story() -> None:
        with sockets() as pair:
            async with connected(*pair, contexts) as (server, _client):
                found.append(isinstance(server, KernelTlsSocket))

    run(story())
    return found[0]


@contextmanager
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A pair of connected sockets whose buffers are full after a few kilobytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
    with client, server:
        for sock in (client, server):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
            sock.setblocking(False)
        yield server, client


@asynccontextmanager
async def connected(
    server: socket.socket, client: socket.socket, contexts: Contexts
) -> AsyncIterator[list[SecuredSocket]]:
    both = await asyncio.gather(
        shake_hands(server, contexts.server),
        shake_hands(client, contexts.client, server_hostname=HOST),
    )
    try:
        yield both
    finally:
        for tls in both:
            tls.close()


async def send_all(tls: SecuredSocket, data: bytes, file: int, rng: random.Random) -> None:
    """Send the data in pieces, some of them from the file, as a connection's outbox does."""
    loop = asyncio.get_running_loop()
    position = 0
    while position < len(data):
        size = min(rng.choice((1, 100, 20_000, PIECE_BYTES + 1, 2 * PIECE_BYTES)), len(data) - position)
        end, from_file = position + size, rng.random() < 0.5
        more = socket.MSG_MORE if end < len(data) and rng.random() < 0.5 else 0
        while position < end:
            try:
                if from_file:
                    position += tls.sendfile(tls.fileno(), file, position, end - position)
                else:
                    position += tls.send(data[position:end], more)
            except BlockingIOError:
                await _ready(loop.add_writer, loop.remove_writer, tls.fileno())


async def receive_all(tls: SecuredSocket, size: int, rng: random.Random) -> bytes:
    loop = asyncio.get_running_loop()
    received = b""
    while len(received) < size:
        buffer = memoryview(bytearray(rng.choice((1, 50, 5000, 300_000))))
        try:
            count = tls.recv_into(buffer)
        except BlockingIOError:
            await _ready(loop.add_reader, loop.remove_reader, tls.fileno())
            continue
        assert count, "the end came too early"
        received += buffer[:count]
        if not tls.has_more and len(received) < size:
            await _ready(loop.add_reader, loop.remove_reader, tls.fileno())
    return received


async def _ready(
    add: Callable[[int, Callable[[], None]], None], remove: Callable[[int], bool], fd: int
) -> None:
    ready = asyncio.Event()
    add(fd, ready.set)
    await ready.wait()
    remove(fd)


@pytest.mark.parametrize("seed", range(6))
def test_bytes_and_slices_of_files_arrive_in_both_directions(
    contexts: Contexts, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    data = [rng.randbytes(rng.randrange(1, 5 * PIECE_BYTES)) for _ in range(2)]
    files = []
    for number, content in enumerate(data):
        path = tmp_path / str(number)
        path.write_bytes(content)
        files.append(os.open(path, os.O_RDONLY))

    async def story() -> None:
        with sockets() as pair:
            async with connected(*pair, contexts) as (server, client):
                assert type(server) is type(client) is contexts.kind
                _, _, at_client, at_server = await asyncio.gather(
                    send_all(server, data[0], files[0], random.Random(seed)),
                    send_all(client, data[1], files[1], random.Random(seed + 1)),
                    receive_all(client, len(data[0]), rng),
                    receive_all(server, len(data[1]), rng),
                )
                assert at_client == data[0]
                assert at_server == data[1]

    try:
        run(story())
    finally:
        for file in files:
            os.close(file)


def test_what_the_client_sends_with_its_last_handshake_message_is_not_lost(contexts: Contexts) -> None:
    """Bytes that the server has received with the handshake are not reported by its selector again."""

    async def story() -> None:
        with sockets() as (server_side, client_side):
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = contexts.client.wrap_bio(incoming, outgoing, server_hostname=HOST)
            loop = asyncio.get_running_loop()
            shaking = loop.create_task(shake_hands(server_side, contexts.server))
            with pytest.raises(ssl.SSLWantReadError):
                client.do_handshake()
            await loop.sock_sendall(client_side, outgoing.read())
            while True:
                incoming.write(await loop.sock_recv(client_side, 65536))
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await loop.sock_sendall(client_side, outgoing.read())
            client.write(b"first request")
            await loop.sock_sendall(client_side, outgoing.read())
            server = await shaking
            if contexts.kind is TlsSocket:
                assert server.has_more
            assert await receive_all(server, 13, random.Random(0)) == b"first request"
            assert not server.has_more
            server.close()

    run(story())


def test_the_end_is_read_as_the_end(contexts: Contexts) -> None:
    async def story(*, says_so: bool) -> None:
        with sockets() as pair:
            async with connected(*pair, contexts) as (server, client):
                with suppress(BlockingIOError):
                    client.recv_into(memoryview(bytearray(10)))  # the tickets: unread bytes would reset it
                client.send(b"last words")
                if says_so:
                    client.close()
                else:
                    with socket.socket(fileno=os.dup(client.fileno())) as other:
                        other.shutdown(socket.SHUT_WR)
                assert await receive_all(server, 10, random.Random(0)) == b"last words"
                loop = asyncio.get_running_loop()
                buffer = memoryview(bytearray(10))
                while True:
                    try:
                        assert server.recv_into(buffer) == 0
                        break
                    except BlockingIOError:
                        await _ready(loop.add_reader, loop.remove_reader, server.fileno())

    run(story(says_so=True))
    run(story(says_so=False))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP_REQUEST"),
        (
            b"\x00\x00\x00\x1b\x00\x12\x00\x03\x00\x00\x00\x01\x00\x07unknown" + bytes(14),
            "WRONG_VERSION_NUMBER",
        ),
        (b"\x16\x03\x01\xff\xff" + bytes(1000), "PACKET_LENGTH_TOO_LONG"),
    ],
    ids=["HTTP", "Kafka without TLS", "a record that is too long"],
)
def test_bytes_that_are_no_handshake_fail_it(contexts: Contexts, sent: bytes, reason: str) -> None:
    async def story() -> None:
        with sockets() as (server, client):
            await asyncio.get_running_loop().sock_sendall(client, sent)
            with pytest.raises(HandshakeFailed, match=reason):
                await shake_hands(server, contexts.server)

    run(story())


def test_both_sides_say_why_a_certificate_is_not_accepted(contexts: Contexts) -> None:
    async def story() -> None:
        with sockets() as (server, client):
            outcomes = await asyncio.gather(
                shake_hands(server, contexts.server),
                shake_hands(client, contexts.stranger, server_hostname=HOST),
                return_exceptions=True,
            )
        assert [type(outcome) for outcome in outcomes] == [HandshakeFailed, HandshakeFailed]
        assert "TLSV1_ALERT_UNKNOWN_CA" in str(outcomes[0])
        assert "the certificate is not accepted: unable to get local issuer certificate" in str(outcomes[1])

    run(story())


def test_the_name_of_the_server_is_checked(contexts: Contexts) -> None:
    async def story() -> None:
        with sockets() as (server, client):
            outcomes = await asyncio.gather(
                shake_hands(server, contexts.server),
                shake_hands(client, contexts.client, server_hostname="elsewhere.example"),
                return_exceptions=True,
            )
        assert "Hostname mismatch" in str(outcomes[1])

    run(story())


def test_a_worker_computes_the_steps(contexts: Contexts) -> None:
    async def story() -> None:
        with sockets() as (server, client), ThreadPoolExecutor(1) as worker:
            both = await asyncio.gather(
                shake_hands(server, contexts.server, worker),
                shake_hands(client, contexts.client, server_hostname=HOST),
            )
            both[0].send(b"hello")
            assert await receive_all(both[1], 5, random.Random(0)) == b"hello"
            for tls in both:
                tls.close()

    run(story())


@pytest.mark.parametrize(
    ("sent", "error"),
    [(b"", NothingReceived), (b"\x16\x03", ConnectionResetError)],
    ids=["nothing", "a part"],
)
def test_a_lost_handshake_says_whether_it_had_begun(
    contexts: Contexts, sent: bytes, error: type[OSError]
) -> None:
    async def story() -> None:
        with sockets() as (server, client):
            client.send(sent)
            client.close()
            with pytest.raises(ConnectionResetError) as lost:
                await shake_hands(server, contexts.server)
            assert lost.type is error

    run(story())


@pytest.mark.parametrize("contexts", ["direct"], indirect=True)
def test_a_socket_stays_open_while_the_worker_uses_it(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another connection could get its descriptor, and the handshake would read from that one."""
    has_begun, may_end = threading.Event(), threading.Event()

    class SlowSocket(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            has_begun.set()
            may_end.wait(20)
            super().do_handshake(block)

    monkeypatch.setattr(contexts.server, "sslsocket_class", SlowSocket)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        with sockets() as (server, client), ThreadPoolExecutor(1) as worker:
            descriptor = server.fileno()
            await loop.sock_sendall(client, b"\x16\x03")
            shaking = loop.create_task(shake_hands(server, contexts.server, worker))
            await loop.run_in_executor(None, has_begun.wait, 20)
            shaking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await shaking
            os.fstat(descriptor)
            may_end.set()
            assert await loop.sock_recv(client, 1) == b""

    run(story())


@pytest.mark.parametrize("contexts", ["direct", "kernel"], indirect=True)
@pytest.mark.parametrize("error", [ConnectionResetError, ssl.SSLWantWriteError])
def test_bytes_before_a_loss_are_received(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """The loss follows. It includes an answer of OpenSSL that the other side does not let it send."""
    results: list[bytes | OSError] = [b"first ", b"last", error(3, "lost"), error(3, "lost")]

    class LostSocket(ssl.SSLSocket):
        def recv_into(self, buffer: memoryview, nbytes: int | None = None, flags: int = 0) -> int:
            result = results.pop(0)
            if isinstance(result, OSError):
                raise result
            buffer[: len(result)] = result
            return len(result)

    monkeypatch.setattr(contexts.server, "sslsocket_class", LostSocket)

    async def story() -> None:
        with sockets() as pair:
            async with connected(*pair, contexts) as (server, _client):
                buffer = memoryview(bytearray(100))
                assert bytes(buffer[: server.recv_into(buffer)]) == b"first last"
                assert server.has_more
                with pytest.raises(error):
                    server.recv_into(buffer)

    run(story())


@pytest.mark.parametrize("contexts", ["direct"], indirect=True)
def test_what_the_kernel_encrypts_is_sent_around_openssl(contexts: Contexts, tmp_path: Path) -> None:
    """Without a kernel that encrypts, it arrives as it was sent."""
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")

    async def story(file: int) -> None:
        with sockets() as pair:
            async with connected(*pair, contexts) as (server, client):
                assert isinstance(server, DirectTlsSocket)
                around = KernelTlsSocket(server._tls)
                assert around.send(b"more ", socket.MSG_MORE) == 5
                assert around.sendfile(around.fileno(), file, 2, 5) == 5
                assert around.sendmsg([b" and", b" last"]) == 9
                received = b""
                with socket.socket(fileno=os.dup(client.fileno())) as raw:
                    while len(received) < 19:
                        received += await asyncio.get_running_loop().sock_recv(raw, 100)
                assert received == b"more 23456 and last"

    with open(path, "rb") as opened:
        run(story(opened.fileno()))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="only the command openssl sends a KeyUpdate")
@pytest.mark.parametrize(
    ("kind", "commands"),
    [("memory", "kKkK"), ("kernel", "kkK")],
    ids=["memory", "kernel, or direct without it"],
)
def test_a_client_may_change_its_key_and_ask_for_another(kind: str, commands: str) -> None:
    contexts = Contexts(kind)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            host, port = listening.getsockname()
            client = await asyncio.create_subprocess_exec(
                *("openssl", "s_client", "-tls1_3", "-connect", f"{host}:{port}"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            assert client.stdin is not None
            assert client.stdout is not None
            sock, _ = await loop.sock_accept(listening)
        sock.setblocking(False)
        server = await shake_hands(sock, contexts.server)
        for number, command in enumerate(commands):
            client.stdin.write(f"{command}\n".encode())
            await client.stdout.readuntil(b"KEYUPDATE")
            client.stdin.write(b"request %d\n" % number)
            assert await receive_all(server, 10, random.Random(0)) == b"request %d\n" % number
            server.send(b"answer %d\n" % number)
            await client.stdout.readuntil(b"answer %d\n" % number)
        server.close()
        client.stdin.close()
        await client.wait()

    run(story())
