"""All 145 of h2spec's checks of a server against RFC 7540 and 7541 (github.com/summerwind/h2spec)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest
from filelock import FileLock
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from maven_jars import cache_root
from penstock.web.server import WebServer, listen

sys.path.append(str(Path(__file__).parents[1] / "clients"))

from go_tests import build_program

MODULE = "github.com/summerwind/h2spec@v2.2.1+incompatible"
# Here data without HTTP/2's preface is HTTP/1.1, and gets an HTTP/1.1 answer before the close.
OTHERWISE = ["Sends invalid connection preface"]


@pytest.fixture(scope="module")
def h2spec() -> Path:
    """The program; skip the test with a reason if it is not available."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed, so h2spec cannot be built")
    cache_root().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_root() / "h2spec.lock"):
        try:
            return build_program(MODULE, "cmd/h2spec")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"h2spec cannot be fetched: {error}")


@pytest.mark.long
def test_the_protocol_is_kept_to(h2spec: Path, tmp_path: Path) -> None:
    async def home(request: Request) -> Response:
        await request.body()
        return Response(b"x" * 100)

    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    routes = [Route("/", home, methods=["GET", "POST"])]
    server = WebServer(Starlette(routes=routes), listening, name="tested", http2=True)
    thread = threading.Thread(target=server.serve_here)
    thread.start()
    report = tmp_path / "report.xml"
    try:
        subprocess.run(
            [str(h2spec), "-h", "127.0.0.1", "-p", str(port), "-o", "10", "-j", str(report)],
            capture_output=True,
            timeout=100,
            check=False,
        )
    finally:
        server.should_exit = True
        thread.join(60)
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) == 145
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    assert [case.get("classname") for case in failed] == OTHERWISE
