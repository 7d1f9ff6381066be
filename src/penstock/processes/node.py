"""One node as a child process: start it, stop it, kill it, pause it."""

import re
import signal
import subprocess
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError
from penstock.processes.children import read_until, start_command
from penstock.processes.forked_nodes import ForkedNode, close_pipes, start_node
from penstock.processes.memory import bound_memory

READY: Final = re.compile(r"ready on (\S+):(\d+)")
LOG_TAIL_BYTES: Final = 4096


class ClusterError(PenstockError, RuntimeError):
    """A node did not start or did not stop, or the cluster cannot do what was called.

    If a node failed, the message ends with the tail of its log.
    """


class Node:
    """A node in a child process, which ends when this process ends, even if this process is killed.

    Args:
        arguments: the arguments of `penstock start`.
        port: the port for clients; 0 if it is known only once the node is ready.
        is_fork: whether the node is a fork of a process that has imported Penstock.
        awaited: what the node prints, beside the line with its address, before it counts as ready.
    """

    def __init__(
        self,
        node_id: int,
        data_dir: Path,
        log_file: Path,
        arguments: list[str],
        port: int,
        *,
        is_fork: bool = False,
        awaited: str = "",
    ) -> None:
        self.node_id = node_id
        self.data_dir = data_dir
        self.log_file = log_file
        self._arguments = arguments
        self._port = port
        self._is_fork = is_fork
        self._awaited = awaited
        self._process: ForkedNode | subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def __str__(self) -> str:
        return f"node {self.node_id}"

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT`, the address of this node."""
        return f"127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        if not self._port:
            raise ClusterError("the cluster was not started: use it in a with block, or call start() first")
        return self._port

    @property
    def pid(self) -> int:
        """The node's process id."""
        if self._process is None:
            raise ClusterError(f"{self} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the node was started and has not ended; a paused node is running."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float = 30.0) -> None:
        """Start the node and return once it accepts connections."""
        self.launch()
        self.await_ready(timeout_s)

    def launch(self) -> None:
        """Start the process without waiting for it."""
        if self._is_closed:
            raise ClusterError(f"{self} cannot start: its cluster is closed")
        if self._process is not None:
            raise ClusterError(f"{self} is already running (pid {self._process.pid})")
        arguments = self._arguments
        if self._port:
            arguments = [word.replace("127.0.0.1:0", f"127.0.0.1:{self._port}") for word in arguments]
        with self.log_file.open("ab") as log:
            if self._is_fork:
                self._process = start_node(arguments, log)
            else:
                self._process = start_command(["start", *arguments], stdout=subprocess.PIPE, stderr=log)
        bound_memory(self._process.pid)

    def await_ready(self, timeout_s: float = 30.0) -> None:
        """Return once the node accepts connections. Raises ClusterError, and then the node is not running."""
        process = self._process
        if process is None:
            raise ClusterError(f"{self} is not running")
        assert process.stdout is not None
        try:
            self._port = read_until(process.stdout, self._port_in, timeout_s)
        except EOFError:
            code = process.wait()
            self._forget()
            raise ClusterError(
                f"{self} ended with exit code {code} before it was ready\n{self.log_tail()}"
            ) from None
        except TimeoutError:
            self.kill()
            raise ClusterError(f"{self} was not ready within {timeout_s:g} s\n{self.log_tail()}") from None

    def _port_in(self, output: str) -> int | None:
        """The port that a node's output names, once the node counts as ready."""
        found = READY.search(output) if self._awaited in output else None
        return int(found[2]) if found else None

    def terminate(self) -> None:
        """Ask the node to stop cleanly (SIGTERM), without waiting for it; a paused node resumes."""
        if self._process is not None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)

    def ends_within(self, timeout_s: float) -> bool:
        """Wait for the end of the node, at most this long; return whether it has ended."""
        try:
            if self._process is not None:
                self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, timeout_s: float = 30.0) -> None:
        """Shut the node down cleanly and wait for it; do nothing if it is not running."""
        process = self._process
        if process is None:
            return
        self.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClusterError(
                f"{self} did not stop within {timeout_s:g} s and was killed\n{self.log_tail()}"
            ) from None
        self._forget()

    def kill(self) -> None:
        """Send SIGKILL, so that the node cannot write anything more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    def close(self) -> None:
        """Kill the node if it runs. It cannot be started again."""
        self.kill()
        self._is_closed = True

    def pause(self) -> None:
        """Send SIGSTOP: the node stops running, but its connections stay open, until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT: the node continues as if no time had passed."""
        self._signal(signal.SIGCONT)

    def restart(self, timeout_s: float = 30.0) -> None:
        """Start the node again on the same port and data; a node that still runs is stopped cleanly first."""
        self.stop(timeout_s)
        self.start(timeout_s)

    def log_tail(self) -> str:
        """The end of the node's log."""
        data = self.log_file.read_bytes() if self.log_file.exists() else b""
        return data[-LOG_TAIL_BYTES:].decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise ClusterError(f"{self} is not running")
        self._process.send_signal(number)

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            close_pipes(process)
