"""Basic authentication (RFC 7617) with a file of users, passwords and roles.

The format is that of Jetty's PropertyFileLoginModule:

alice: her-password, sr-user
bob: MD5:5f4dcc3b5aa765d61d8327deb882cf99, sr-user, admin
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import javaproperties
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_ANY_ROLE: Final = ("*", "**")
_MD5: Final = "MD5:"
_OTHER_FORMS: Final = ("OBF:", "CRYPT:")


@dataclass(frozen=True, slots=True)
class Users:
    """The users with one of the accepted roles, and their ``passwords``."""

    passwords: Mapping[str, str]
    realm: str

    @classmethod
    def read(cls, path: str, roles: Collection[str], realm: str) -> Users:
        """Read the users with one of these roles from a file. Raises ValueError."""
        try:
            with open(path, encoding="utf-8") as file:
                lines = javaproperties.load(file)
        except (OSError, ValueError) as error:
            raise ValueError(f"the users in {path!r} can't be read: {error}") from None
        passwords = {}
        for user, entry in lines.items():
            password, *own = (each.strip() for each in entry.split(","))
            if not password or password.startswith(_OTHER_FORMS):
                raise ValueError(
                    f"user {user!r} in {path!r} has no usable password: expected "
                    "'user: password[,role…]', with a plain password or MD5:…"
                )
            if set(roles) & {*_ANY_ROLE, *own}:
                passwords[user] = password
        return cls(passwords, realm.replace('"', "'"))

    def lets_in(self, authorization: str) -> bool:
        """Whether an Authorization header has the name and password of a user."""
        kind, _, credentials = authorization.partition(" ")
        if kind.lower() != "basic":
            return False
        try:
            user, _, password = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        expected = self.passwords.get(user)
        if expected is None:
            return False
        if expected.startswith(_MD5):
            password = hashlib.md5(password.encode(), usedforsecurity=False).hexdigest()
            expected = expected.removeprefix(_MD5).lower()
        return hmac.compare_digest(password.encode(), expected.encode())


class BasicAuthentication:
    """Middleware that answers unauthenticated requests with a ``refusal`` of status 401.

    ``open_paths`` need no authentication; ``*`` in one stands for any characters.
    """

    def __init__(
        self,
        application: ASGIApp,
        users: Users,
        refusal: Callable[[], Response],
        open_paths: Collection[str] = (),
    ) -> None:
        self._application = application
        self._users = users
        self._refusal = refusal
        patterns = "|".join(re.escape(each).replace(r"\*", ".*") for each in open_paths)
        self._open = re.compile(patterns or r"(?!)")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_let_in(scope):
            await self._application(scope, receive, send)
            return
        answer = self._refusal()
        answer.headers["WWW-Authenticate"] = f'Basic realm="{self._users.realm}"'
        await answer(scope, receive, send)

    def _is_let_in(self, scope: Scope) -> bool:
        header = Headers(scope=scope).get("authorization", "")
        return self._open.fullmatch(scope["path"]) is not None or self._users.lets_in(header)
