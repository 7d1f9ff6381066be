"""The interface of a connected socket with TLS, which all kinds of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable


class SecuredSocket(ABC):
    """A non-blocking socket after its TLS handshake, with the methods of a socket that connections use.

    The methods behave as those of a socket, with a rule that OpenSSL has, too: after a BlockingIOError, a
    call that sends must be repeated with the same bytes, to which more may have been added.
    """

    __slots__ = ("has_more",)

    has_more: bool
    """Whether `recv_into` can go on at once, which the selector of the loop does not see."""

    @property
    @abstractmethod
    def certificate(self) -> bytes | None:
        """The certificate of the other side in DER; None if it has shown none."""

    @abstractmethod
    def fileno(self) -> int:
        """Return the descriptor of the socket."""

    @abstractmethod
    def recv_into(self, buffer: memoryview) -> int:
        """Receive bytes that are decrypted; 0 means the end. Raises OSError."""

    @abstractmethod
    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        """Send bytes. With MSG_MORE they may wait for the next call and go out together. Raises OSError."""

    @abstractmethod
    def sendfile(self, out_fd: int, file: int, position: int, count: int) -> int:
        """Send a slice of a file as `os.sendfile` does; 0 means that the file ends before. Raises OSError."""

    @abstractmethod
    def sendmsg(self, pieces: Iterable[bytes | bytearray | memoryview]) -> int:
        """Send several pieces as one. Raises OSError."""

    @abstractmethod
    def close(self) -> None:
        """Close the socket, and tell the other side if that is possible at once."""
