"""The commands of docs/quotas.md, on a node of their own."""

import re
import shlex
from pathlib import Path
from typing import Final

from typer.testing import CliRunner

from penstock.cli.main import build_app
from penstock.testing import Cluster

PAGE: Final = Path(__file__).parents[2] / "docs" / "quotas.md"


def test_the_commands_of_the_page_print_what_it_shows() -> None:
    shown = "".join(re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL))
    _, *examples = re.split(r"^\$ ", shown, flags=re.MULTILINE)
    assert len(examples) > 5
    with Cluster() as cluster:
        for example in examples:
            command, _, output = example.partition("\n")
            penstock, name, *words = shlex.split(command)
            assert penstock == "penstock"
            done = CliRunner().invoke(
                build_app(name), [name, *words], env={"PENSTOCK_BOOTSTRAP": cluster.bootstrap_servers}
            )
            assert done.exit_code == 0, f"{command}\n{done.output}"
            if output:
                assert [line.split() for line in done.stdout.splitlines()] == [
                    line.split() for line in output.splitlines()
                ]
