"""Messages to the service manager, and the unit for systemd."""

import configparser
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from penstock.cli.main import build_app
from penstock.processes.service_manager import READY, ServiceManager

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "penstock.service"


def test_a_state_reaches_a_manager_in_either_kind_of_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    abstract = f"@penstock-test-{os.getpid()}"
    path = str(tmp_path / "notify")
    for address, bound in ((path, path), (abstract, f"\0{abstract[1:]}")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(bound)
            receiver.settimeout(20)
            monkeypatch.setenv("NOTIFY_SOCKET", address)
            ServiceManager().notify(READY)
            assert receiver.recv(100) == b"READY=1"
            assert "NOTIFY_SOCKET" not in os.environ


def test_a_missing_manager_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    ServiceManager().notify(READY)
    ServiceManager().notify(READY)


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text())
    return parser


def test_the_unit_starts_a_node_with_options_that_exist() -> None:
    words = shlex.split(unit()["Service"]["ExecStart"])
    assert words[1] == "start"
    command = get_command(build_app("start")).commands["start"]  # type: ignore[attr-defined]
    options = {name for option in command.params for name in option.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_the_unit_fits_what_a_node_does() -> None:
    service = unit()["Service"]
    assert service["Type"] == "notify"
    assert int(service["TimeoutStopSec"]) >= 60
    assert int(service["LimitNOFILE"]) >= 100_000
    assert service["RestartPreventExitStatus"] == "2"
    assert "ExecReload" not in service  # SIGHUP stops a node


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text().replace("/opt/penstock/bin/penstock", sys.executable)
    copy = tmp_path / "penstock.service"
    copy.write_text(text.replace("User=penstock\nGroup=penstock\n", ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
