"""Counters of requests and connections, kept as plain integers; the metrics read them."""

from __future__ import annotations


class ApiStats:
    """Counters of one API, as plain integers.

    As in Apache Kafka, a request's time has four parts: in the queue until its handler starts, in the
    handler, waiting for others (a long poll, replicas, the controller), and until the socket has accepted the
    last byte of the response.
    """

    __slots__ = ("errors", "handler_ns", "queue_ns", "remote_ns", "request_bytes", "requests", "send_ns")

    def __init__(self) -> None:
        self.requests = 0
        self.request_bytes = 0
        self.queue_ns = 0
        self.handler_ns = 0
        self.remote_ns = 0
        self.send_ns = 0
        self.errors = 0


class ServerStats:
    """The counters of a server, which the metrics read."""

    __slots__ = ("accepted", "failed_handshakes", "handshakes", "hostile_frames", "idle_closed", "refused")

    def __init__(self) -> None:
        self.accepted = 0
        self.refused = 0
        self.idle_closed = 0
        self.hostile_frames = 0
        self.handshakes = 0
        self.failed_handshakes = 0
