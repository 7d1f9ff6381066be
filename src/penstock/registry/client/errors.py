"""The errors that a client of a schema registry can raise."""

from __future__ import annotations

from penstock.client.errors import ClientError


class RegistryError(ClientError):
    """Base class of all errors that a request to a registry raises."""


class RegistryUnreachable(RegistryError):
    """None of the configured registries gave a usable answer, even after all retries."""

    retriable = True


class RegistryRefused(RegistryError):
    """The registry answered with an error.

    ``status`` is the HTTP status, ``code`` the registry's own code (40403: no such schema).
    """

    def __init__(self, url: str, status: int, code: int, message: str) -> None:
        super().__init__(f"{url} answered {status} (error code {code}): {message}")
        self.url = url
        self.status = status
        self.code = code
        self.message = message

    def again(self) -> RegistryRefused:
        """Return a copy to raise: raising one error object twice would join the tracebacks of both."""
        return RegistryRefused(self.url, self.status, self.code, self.message)

    @property
    def is_absence(self) -> bool:
        """Whether the registry says that the resource does not exist, rather than that it cannot answer.

        Registries use the error codes 404xx for that. A bare 404 comes from a wrong path, or from a proxy in
        front of a registry that is down.
        """
        return self.status == 404 and self.code // 100 == 404
