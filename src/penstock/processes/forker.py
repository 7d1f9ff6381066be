"""A server that forks its process into a node for each request, and reports the end of each node.

`forked_nodes` sends the requests over a Unix socket; a request is one message:

- JSON of `arguments` for `penstock start`, the `environment` and the working `directory` of the node;
- four file descriptors: the node's standard input, output and error, and a pipe for its end.

The answer is the pid of the node in decimal digits. When the node ends, the forker writes its exit code to
the pipe, negative for a signal as in `subprocess`. When the socket is closed, the forker ends with the last
node.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

FDS: Final = 4
REQUEST_BYTES_MAX: Final = 1 << 20
"""Limit on a request; arguments and environment of a process are smaller on Linux."""


class Forker:
    """The socket of the requests, and the pipes of the nodes that run.

    ``preload`` is called with the arguments of each node before its fork.
    """

    def __init__(self, requests: socket.socket, preload: Callable[[Sequence[str]], None]) -> None:
        self._requests = requests
        self._preload = preload
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        self._running: dict[int, tuple[int, int]] = {}
        """Pid and pipe of each node, by the file descriptor that tells of its end."""

    def serve(self) -> list[str] | None:
        """Serve requests. Return the arguments of `penstock start` in a fork, else None at the end."""
        is_open = True
        while is_open or self._running:
            for ready, _ in self._poll.poll():
                if ready != self._requests.fileno():
                    self._report_end(ready)
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
        *standard, end = fds
        for fd in standard:
            os.close(fd)
        end_fd = os.pidfd_open(pid)
        self._running[end_fd] = pid, end
        self._poll.register(end_fd, select.POLLIN)
        self._requests.send(b"%d" % pid)
        return None

    def _become_node(self, request: dict[str, object], fds: list[int]) -> list[str]:
        """Give this fork the streams, the session, the environment and the directory of a node."""
        self._requests.close()
        for end_fd, (_, pipe) in self._running.items():
            os.close(end_fd)
            os.close(pipe)
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

    def _report_end(self, end_fd: int) -> None:
        pid, pipe = self._running.pop(end_fd)
        self._poll.unregister(end_fd)
        os.close(end_fd)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(BrokenPipeError):  # the process that started the node has ended
            os.write(pipe, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(pipe)
