"""Without an extra's packages, an error names the command that installs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.extras import MissingExtra, needs_extra

HIDDEN = ("pyspark", "pyarrow", "numpy", "pandas", "sqlglot", "jsonschema_specifications", "urllib3")
SHELL_NEEDS_NO = ("pyspark", "pandas", "pyarrow", "numpy", "starlette", "h2", "regex", "google.protobuf")
IMPORTS = {
    "import penstock; penstock.read": "'penstock[arrow]'",
    "import penstock.views": "'penstock[arrow]'",
    "from penstock.spark import build_session; build_session('shop')": "'penstock[spark]'",
    "from penstock.spark import register; register(None)": "'penstock[spark]'",
    "from penstock.streams import reset": "'penstock[spark]'",
    "shop.start(bootstrap_servers='127.0.0.1:1', checkpoint='c')": "'penstock[spark]'",
    "shop.views(bootstrap_servers='127.0.0.1:1')": "'penstock[arrow]'",
    "from penstock.registry.client import RegistryClient": "'penstock[registry]'",
    "import penstock.connect.converters.avro.converter": "'penstock[registry]'",
    "import penstock.connect.converters.json_schema.converter": "'penstock[registry]'",
    "from penstock.connect.connectors.http.exchange.client import HttpClient as Client; "
    "Client(None, tls=None, connect_timeout_s=1, read_timeout_s=1)": "'penstock[http]'",
    "import penstock.connect.connectors.lake.delta": "'penstock[lake]'",
    "import penstock.connect.connectors.lake.iceberg": "'penstock[lake]'",
    "import penstock.connect.connectors.lake.objects": "'penstock[objects]'",
    "from penstock.sql import parse": "'penstock[sql-shell]'",
}
ASK = """
import sys
sys.modules.update(dict.fromkeys({hidden}))
from penstock.errors import MissingExtra
from penstock.streams import App, string
shop = App("shop", key=string, value=string)
shop.stream("orders").to("copies")
for code in {imports}:
    try:
        exec(code)
    except MissingExtra as error:
        print(error)
    else:
        print("no error")
"""


def test_errors_name_the_extra() -> None:
    script = ASK.format(hidden=HIDDEN, imports=list(IMPORTS))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for extra, line in zip(IMPORTS.values(), done.stdout.splitlines(), strict=True):
        assert line.endswith(f"Install the extra with: {sys.executable} -m pip install {extra}")


def test_the_package_is_named() -> None:
    with pytest.raises(MissingExtra, match="a chart needs no_such_plotter"), needs_extra("demo", "a chart"):
        import no_such_plotter.lines  # type: ignore[import-not-found]  # noqa: F401


def test_a_missing_module_of_ours_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"penstock\.nowhere"), needs_extra("demo", "a chart"):
        import penstock.nowhere  # type: ignore[import-not-found]  # noqa: F401


def test_the_sql_shell_needs_only_its_own_extra() -> None:
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({SHELL_NEEDS_NO}))\n"
        "from penstock.cli import sql\nfrom penstock.cli.sql_shell import prompt, session\n"
        "sys.argv = ['penstock', '--server', 'http://127.0.0.1:1', '-e', 'SHOW STREAMS;']\nsql.app()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, "`penstock sql server` starts one" in done.stderr) == (3, True), done.stderr
