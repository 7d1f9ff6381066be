"""A KDC of MIT Kerberos on a free port of 127.0.0.1, run by the current user in a directory of its own.

Its programs come from the system, as does the library that the package ``gssapi`` is built with
(CONTRIBUTING.md). Where something is missing, `missing` names it, and the tests are skipped.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_node import free_port
from waiting import wait_until

REALM = "PENSTOCK.TEST"
SERVICE = "kafka"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/lib/mit/sbin"])
_TIMEOUT_S = 60

CONFIG = """
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    kdc_timeout = 10000
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
    OTHER.TEST = {{
        kdc = 127.0.0.1:1
    }}
"""
KDC_CONFIG = """
[realms]
    {realm} = {{
        database_name = {home}/principal
        key_stash_file = {home}/stash
        acl_file = {home}/acl
        kdc_listen = 127.0.0.1:{port}
        kdc_tcp_listen = 127.0.0.1:{port}
        max_life = 1d
    }}
[logging]
    kdc = FILE:{home}/kdc.log
    admin_server = FILE:{home}/kadmin.log
"""


def missing() -> str:
    """What the tests of Kerberos lack here; empty if they can run."""
    if importlib.util.find_spec("gssapi") is None:
        return "the package gssapi is not installed: pip install -e '.[kerberos]' (CONTRIBUTING.md)"
    absent = [name for name in ("krb5kdc", "kadmin.local", "kdb5_util", "kinit") if _program(name) is None]
    return (
        f"{', '.join(absent)} not found: the system's packages of a KDC (CONTRIBUTING.md)" if absent else ""
    )


def _program(name: str) -> str | None:
    return shutil.which(name, path=_PATH)


class Kdc:
    """A KDC of `REALM`; a context manager."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.config = home / "krb5.conf"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which libkrb5 and Java find this KDC, and nothing of the user's own."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.home / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.home / 'nobody.tickets'}",
            "KRB5_KTNAME": f"FILE:{self.home / 'nobody.keytab'}",
            "KRB5RCACHEDIR": str(self.home),
            "JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={self.config}",
        }

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        values = {"realm": REALM, "home": self.home, "port": self.port}
        self.config.write_text(CONFIG.format(**values))
        (self.home / "kdc.conf").write_text(KDC_CONFIG.format(**values))
        self._run("kdb5_util", "create", "-r", REALM, "-s", "-P", "master")
        self.start()
        return self

    def start(self) -> None:
        program = _program("krb5kdc")
        assert program is not None
        with open(self.home / "kdc.out", "wb") as out:
            self._process = subprocess.Popen(
                [program, "-n", "-r", REALM], env=self._variables(), stdout=out, stderr=out
            )
        log = self.home / "kdc.log"
        try:
            wait_until(lambda: log.exists() and "commencing operation" in log.read_text())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_TIMEOUT_S)
            self._process = None
            (self.home / "kdc.log").unlink(missing_ok=True)

    def pause(self) -> None:
        """Let the KDC accept connections without answering."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def add(self, *principals: str, options: str = "") -> Path:
        """Add principals with random keys, and return a key table with these."""
        keytab = self.home / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self.admin(f"addprinc -randkey {options} {principal}")
            self.admin(f"ktadd -k {keytab} {principal}")
        return keytab

    def admin(self, command: str) -> None:
        """Run a command of kadmin."""
        self._run("kadmin.local", "-r", REALM, "-q", command)

    def kinit(self, keytab: Path, principal: str, cache: Path, *options: str) -> None:
        """Get a ticket into a file."""
        self._run("kinit", *options, "-c", str(cache), "-k", "-t", str(keytab), principal)

    def _variables(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def _run(self, name: str, *words: str) -> None:
        program = _program(name)
        assert program is not None
        done = subprocess.run(
            [program, *words],
            env=self._variables(),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{name} {words}:\n{done.stdout}\n{done.stderr}"
        assert "while" not in done.stderr, f"{name} {words}:\n{done.stderr}"


def login_settings(keytab: Path, principal: str, options: str = "") -> str:
    """The login settings of a principal, for servers and for clients."""
    return (
        f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
        f'principal="{principal}@{REALM}"{options and " "}{options};'
    )
