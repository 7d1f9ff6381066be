"""A server that forks its process into a node for each request, and reports the end of each node.

`forked_nodes` sends the requests over a Unix socket; a request is one message:

- JSON of `arguments` for `penstock start`, the `environment` and the working `directory` of the node;
- four file descriptors: the node's standard input, output and error, and a pipe for its end.

The answer is the pid of the node in decimal digits. When the node ends, the forker writes its exit code to
the pipe, negative for a signal as in `subprocess`. When the socket is closed, the forker ends with the last
node. The forker resumes a stopped node (SIGSTOP) once the process that started it has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

FDS: Final = 4
REQUEST_BYTES_MAX: Final = 1 << 20
"""Limit on a request; arguments and environment of a process are smaller on Linux."""


class RunningNode(NamedTuple):
    """The pid of a node, the read end of its standard input, and the pipe for its exit code."""

    pid: int
    stdin: int
    end: int


class Forker:
    """The socket of the requests, and the nodes that run.

    ``preload`` is called with the arguments of each node before its fork.
    """

    def __init__(self, requests: socket.socket, preload: Callable[[Sequence[str]], None]) -> None:
        self._requests = requests
        self._preload = preload
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        self._running: dict[int, RunningNode] = {}
        """The nodes by the file descriptors that report their ends."""
        self._inputs: dict[int, RunningNode] = {}
        """The nodes by the read ends of their standard inputs, until these are closed on the other side."""

    def serve(self) -> list[str] | None:
        """Serve requests. Return the arguments of `penstock start` in a fork, else None at the end."""
        is_open = True
        while is_open or self._running:
            for ready, _ in self._poll.poll():
                if ready in self._running:
                    self._report_end(ready)
                    continue
                if ready != self._requests.fileno():
                    self._resume(ready)
                    continue
                message, fds, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES_MAX, FDS)
                if not message:
                    is_open = False
                    self._poll.unregister(self._requests)
                    continue
                arguments = self._fork(json.loads(message), fds)
                if arguments is not None:
                    return arguments
        return None

    def _fork(self, request: dict[str, Any], fds: list[int]) -> list[str] | None:
        self._preload(request["arguments"])
        pid = os.fork()
        if pid == 0:
            return self._become_node(request, fds)
        stdin, stdout, stderr, end = fds
        os.close(stdout)
        os.close(stderr)
        node = RunningNode(pid, stdin, end)
        end_fd = os.pidfd_open(pid)
        self._running[end_fd] = self._inputs[stdin] = node
        self._poll.register(end_fd, select.POLLIN)
        self._poll.register(stdin, 0)  # reports only that the write end was closed
        self._requests.send(b"%d" % pid)
        return None

    def _become_node(self, request: dict[str, object], fds: list[int]) -> list[str]:
        """Give this fork the streams, the session, the environment and the directory of a node."""
        self._requests.close()
        for stdin in self._inputs:
            os.close(stdin)
        for end_fd, node in self._running.items():
            os.close(end_fd)
            os.close(node.end)
        os.setsid()
        for number, fd in enumerate(fds[:3]):
            os.dup2(fd, number)
        for fd in fds:
            os.close(fd)
        environment, arguments = request["environment"], request["arguments"]
        assert isinstance(environment, dict)
        assert isinstance(arguments, list)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(str(request["directory"]))
        return arguments

    def _resume(self, stdin: int) -> None:
        """Resume a node whose owner has ended: a stopped node would not notice, and never end."""
        if (node := self._forget_input(stdin)) is not None:
            os.kill(node.pid, signal.SIGCONT)  # a pid is not reused before `_report_end`

    def _forget_input(self, stdin: int) -> RunningNode | None:
        node = self._inputs.pop(stdin, None)
        if node is not None:
            self._poll.unregister(stdin)
            os.close(stdin)
        return node

    def _report_end(self, end_fd: int) -> None:
        node = self._running.pop(end_fd)
        self._poll.unregister(end_fd)
        os.close(end_fd)
        self._forget_input(node.stdin)
        _, status = os.waitpid(node.pid, 0)
        with contextlib.suppress(BrokenPipeError):  # the process that started the node has ended
            os.write(node.end, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(node.end)
