"""A real node of OpenSearch or Elasticsearch in a process of its own, from Maven's jars."""

import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_node import JAVA, compiled
from maven_jars import jars_of

VERSIONS = {"OpenSearch": "2.19.3", "Elasticsearch": "7.17.28"}
"""The last releases of both that Maven Central has as jars."""
HERE = Path(__file__).parent
OPTIONS = (
    "-Dlog4j2.disable.jmx=true",
    "-Dlog4j2.level=ERROR",
    "-Dopensearch.set.netty.runtime.available.processors=false",
    "-Des.set.netty.runtime.available.processors=false",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)


class SearchEngine:
    """A node that can be killed and started again."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        libs = jars_of(HERE / f"{name.lower()}_pom.xml", f"{name.lower()}-{VERSIONS[name]}")
        jars = f"{libs}/*"
        classes = compiled(jars, HERE / f"{name}Node.java")
        self._command = [*JAVA, *OPTIONS, "-cp", f"{classes}:{jars}", f"{name}Node", str(home)]
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [*self._command, str(self.port)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ready "):
                self.port = int(line.split()[1])
                return
        raise AssertionError("the engine did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, method: str, path: str, content: object = None) -> Any:
        """Return the JSON of an answer, or None for 404."""
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise AssertionError(error.read()) from error

    def documents(self, index: str) -> dict[str, Any]:
        """The documents of an index by their ids."""
        self.ask("POST", f"/{index}/_refresh")
        found = self.ask("POST", f"/{index}/_search", {"size": 10_000, "query": {"match_all": {}}})
        return {each["_id"]: each["_source"] for each in found["hits"]["hits"]}


@contextmanager
def running_engine(name: str = "OpenSearch") -> Iterator[SearchEngine]:
    home = Path(tempfile.mkdtemp(prefix="penstock-search-"))
    try:
        server = SearchEngine(name, home)
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(home, ignore_errors=True)
