"""Basic authentication by a file of users, passwords and roles, as Jetty's PropertyFileLoginModule reads it.

alice: her-password, sr-user
bob: MD5:5f4dcc3b5aa765d61d8327deb882cf99, sr-user, admin
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import javaproperties
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.client.settings import ConfigError
from penstock.registry.api.answers import failure
from penstock.registry.subjects import RegistryError

_ANY_ROLE: Final = ("*", "**")
_MD5: Final = "MD5:"
_OTHER_FORMS: Final = ("OBF:", "CRYPT:")


@dataclass(frozen=True, slots=True)
class Users:
    """``passwords`` of those who have one of the roles that are let in."""

    passwords: Mapping[str, str]
    realm: str

    @classmethod
    def read(cls, path: str, roles: tuple[str, ...], realm: str) -> Users:
        """Raises ConfigError."""
        try:
            with open(path, encoding="utf-8") as file:
                lines = javaproperties.load(file)
        except (OSError, ValueError) as error:
            raise ConfigError(f"'penstock.authentication.users': {path!r} can't be read: {error}") from None
        passwords = {}
        for user, told in lines.items():
            password, *own = (each.strip() for each in told.split(","))
            if not password or password.startswith(_OTHER_FORMS):
                raise ConfigError(
                    f"'penstock.authentication.users': user {user!r} in {path!r} has no password that can be "
                    "used: expected 'user: password[,role…]', the password as it is or MD5:…"
                )
            if set(roles) & {*_ANY_ROLE, *own}:
                passwords[user] = password
        return cls(passwords, realm)

    def lets_in(self, authorization: str) -> bool:
        """Whether a header is one of a user's with his password."""
        kind, _, credentials = authorization.partition(" ")
        if kind.lower() != "basic":
            return False
        try:
            user, _, password = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        expected = self.passwords.get(user)
        if expected is None:
            return False
        if expected.startswith(_MD5):
            password = hashlib.md5(password.encode(), usedforsecurity=False).hexdigest()
            expected = expected.removeprefix(_MD5).lower()
        return hmac.compare_digest(password.encode(), expected.encode())


class BasicAuthentication:
    """Answers 401 to everybody else."""

    def __init__(self, application: ASGIApp, users: Users) -> None:
        self._application = application
        self._users = users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._users.lets_in(Headers(scope=scope).get("authorization", "")):
            await self._application(scope, receive, send)
            return
        answer = failure(RegistryError(401, "Unauthorized"))
        answer.headers["WWW-Authenticate"] = f'Basic realm="{self._users.realm}"'
        await answer(scope, receive, send)
