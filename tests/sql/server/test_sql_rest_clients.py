"""Third-party clients of ksqlDB, over HTTP/2: ksqldb 1.0.1 from PyPI, ksqldb-client 1.0.5 from npm.

ksqlDB's own, io.confluent.ksql:ksqldb-api-client, is in Confluent's repository and not on Maven Central. Of
the others on PyPI, ksql 0.10.2 and pyksql 0.11.0 can't be built any more, and ksql-python-ng 0.29.0.1 fails
with httpx 0.28.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from filelock import FileLock
from ksqldb import KSQLdbClient
from sql_service import Service, unique

from maven_jars import cache_root
from waiting import wait_until

EARLIEST = {"auto.offset.reset": "earliest"}
NODE_PACKAGE = "ksqldb-client@1.0.5"


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """The directory of the npm package; skip the test with a reason if there is none."""
    for program in ("npm", "node"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed, so {NODE_PACKAGE} cannot be fetched or run")
    home = cache_root() / NODE_PACKAGE.replace("@", "-")
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / "lock"):
        if not (home / "node_modules" / "ksqldb-client").exists():
            (home / "package.json").write_text("{}")
            fetched = subprocess.run(
                ["npm", "install", "--silent", "--no-audit", NODE_PACKAGE],
                cwd=home,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            if fetched.returncode:
                pytest.skip(f"the npm registry is not reachable: {fetched.stderr[-200:]}")
    return home / "node_modules"


def test_the_node_client(service: Service, node_modules: Path) -> None:
    name = service.made_stream()
    port = urlsplit(service.url).port
    program = Path(__file__).with_name("ksqldb_client.js")
    done = subprocess.run(
        ["node", str(program), str(port), name],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["inserted"] == [200, 200]
    assert name in json.dumps(seen["streams"])
    assert '"NAME"' in json.dumps(seen["described"])
    assert seen["pulled"]["rows"] == [{"ID": 1, "NAME": "n1"}, {"ID": 2, "NAME": "n2"}]
    assert seen["pulled"]["metadata"]["columnNames"] == ["ID", "NAME"]
    assert seen["pushed"] == [{"NAME": "n1"}, {"NAME": "n2"}]
    assert (seen["terminated"], seen["ended"]) == (200, 200)
    assert seen["wrong"]["error"]["error_code"] == 40001
    assert seen["refused"]["status"] == 400


def test_ksqldb_for_python(service: Service) -> None:
    client = KSQLdbClient(service.url)
    name, table = service.made_stream(), unique("T")
    assert {"ksql.service.id"} <= {each["name"] for each in client.get_properties()}
    acks = client.inserts_stream(name, [{"id": n, "name": f"n{n % 2}"} for n in range(4)])
    assert acks == [{"status": "ok", "seq": n} for n in range(4)]
    [made] = client.ksql(
        f"CREATE TABLE {table} AS SELECT name, COUNT(*) AS n FROM {name} GROUP BY name;", EARLIEST
    )
    assert made["commandStatus"]["status"] == "SUCCESS"
    select = f"SELECT * FROM {table} WHERE name = 'n1';"
    wait_until(lambda: client.query_sync(select)[1:] == [["n1", 2]])

    async def followed() -> list[Any]:
        found: list[Any] = []
        async for row in client.query_async(f"SELECT id FROM {name} EMIT CHANGES;", EARLIEST):
            found.append(row)
            if len(found) == 5:
                assert await asyncio.to_thread(client.close_query, found[0]["queryId"])
        return found

    header, *rows = asyncio.run(followed())
    assert header["columnTypes"] == ["INTEGER"]
    assert rows == [[0], [1], [2], [3]]
    assert client.close_query(header["queryId"]) is False
