"""Run the tests of TLS on a kernel with kernel TLS, which runs as a process: user-mode Linux.

Few test machines have kernel TLS. Debian's package `user-mode-linux` has a kernel and its modules, which run
without any rights:

    apt-get install --no-install-recommends user-mode-linux
    python tests/broker/tls/kernel_tls_in_uml.py

The kernel reads this machine's files and cannot change them, has one processor and its own loopback. It runs
all tests of this directory, or those that pytest's arguments choose (`-k kernel`). The exit status is that of
pytest. The last lines are the kernel's counters: `TlsTxSw` counts the connections that it has encrypted.
"""

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TIME_LIMIT_S = 900
MEMORY = "1500M"

MODULES = ("crypto/gf128mul", "crypto/ghash-generic", "crypto/ctr", "crypto/gcm", "net/tls/tls")
"""The kernel's modules for AES-GCM and kernel TLS, each after those that it needs."""

FINIT_MODULE = 313  # the number of the system call on x86-64
POWER_OFF = 0x4321FEDC
STATUS = "exit status of pytest: "


def boot(arguments: list[str]) -> int:
    """Boot the kernel, and have it run this module as its first process."""
    kernel = shutil.which("linux.uml")
    if kernel is None:
        sys.exit("linux.uml is missing: apt-get install --no-install-recommends user-mode-linux")
    with tempfile.TemporaryDirectory() as directory:
        first_process = Path(directory) / "init"
        command = shlex.join([sys.executable, str(Path(__file__).resolve()), *arguments])
        first_process.write_text(f"#!/bin/sh\nexec {command}\n")
        first_process.chmod(0o755)
        running = subprocess.Popen(
            [
                *(kernel, f"mem={MEMORY}", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"),
                *(f"init={first_process}", "con=null", "con0=fd:0,fd:1"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert running.stdout is not None
        end = threading.Timer(TIME_LIMIT_S + 60, os.killpg, (running.pid, signal.SIGKILL))
        end.start()
        status = 1
        try:
            for line in running.stdout:
                print(line, end="", flush=True)
                if line.startswith(STATUS):
                    status = int(line.removeprefix(STATUS))
        finally:
            end.cancel()
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    return status


def be_first_process(arguments: list[str]) -> None:
    """Prepare the booted system, run the tests, and switch it off."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        for kind, directory in (("proc", "/proc"), ("sysfs", "/sys")):
            subprocess.run(["mount", "-t", kind, kind, directory], check=True)
        Path("/dev/shm").mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        modules = Path("/usr/lib/uml/modules") / os.uname().release / "kernel"
        for name in MODULES:
            with open(modules / f"{name}.ko", "rb") as module:
                if libc.syscall(FINIT_MODULE, module.fileno(), b"", 0):
                    raise OSError(ctypes.get_errno(), "cannot load", name)
        found = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-rs",
                "--color=no",
                "-p",
                "no:cacheprovider",
                str(HERE),
                *arguments,
            ],
            cwd=ROOT,
            env={
                "HOME": "/dev/shm",
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
                "TMPDIR": "/dev/shm",
            },
            timeout=TIME_LIMIT_S,
            check=False,
        )
        print(Path("/proc/net/tls_stat").read_text())
        print(f"{STATUS}{found.returncode}", flush=True)
    finally:
        libc.reboot(POWER_OFF)


if __name__ == "__main__":
    if os.getpid() == 1:
        be_first_process(sys.argv[1:])
    else:
        sys.exit(boot(sys.argv[1:]))
