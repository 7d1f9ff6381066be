"""What can go wrong between a client and a schema registry."""

from __future__ import annotations

from penstock.client.errors import ClientError


class RegistryError(ClientError):
    """Base of everything that asking a registry raises."""


class RegistryUnreachable(RegistryError):
    """No registry of the list gave an answer that can be used, however often it was asked."""

    retriable = True


class RegistryRefused(RegistryError):
    """The registry answered with an error: ``status`` is HTTP's, ``code`` its own (40403: no such schema)."""

    def __init__(self, url: str, status: int, code: int, message: str) -> None:
        super().__init__(f"{url} answered {status} (error code {code}): {message}")
        self.url = url
        self.status = status
        self.code = code
        self.message = message

    def again(self) -> RegistryRefused:
        """Return a copy to raise: an error that is raised twice keeps the stack of both times."""
        return RegistryRefused(self.url, self.status, self.code, self.message)

    @property
    def is_absence(self) -> bool:
        """Whether the registry says that there is no such thing, rather than that it cannot tell.

        Registries use the error codes 404xx for that. A bare 404 comes from a wrong path, or from a proxy
        before a registry that is away.
        """
        return self.status == 404 and self.code // 100 == 404
