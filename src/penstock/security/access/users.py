"""The file of users: passwords and roles, in the format of Jetty's PropertyFileLoginModule.

    alice: her-password, writer:orders-, reader
    bob: MD5:5f4dcc3b5aa765d61d8327deb882cf99, admin
    billing: *, reader

``*`` in the place of the password admits none: such a user shows a certificate or a token of this name. A
user without any of the roles `reader`, `writer` and `admin` may do everything, because other servers' roles
only say who comes in. But where a user of the file is a reader or a writer, each of them needs one of the
three: a role that is misspelt must not give everything.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import javaproperties

from penstock.security.access.errors import InvalidAccess
from penstock.security.access.roles import ROLES, Grant, Role

log = logging.getLogger(__name__)

_ANY_ROLE: Final = ("*", "**")
_NO_PASSWORD: Final = "*"
_MD5: Final = "MD5:"
_OTHER_FORMS: Final = ("OBF:", "CRYPT:")


@dataclass(frozen=True, slots=True)
class User:
    """A user; without a ``password``, one that comes with a certificate or a token."""

    password: str | None = field(repr=False)
    grants: tuple[Grant, ...]

    def has_password(self, password: str) -> bool:
        expected = self.password
        if expected is None:
            return False
        if expected.startswith(_MD5):
            password = hashlib.md5(password.encode(), usedforsecurity=False).hexdigest()
            expected = expected.removeprefix(_MD5).lower()
        return hmac.compare_digest(password.encode(), expected.encode())


class Users:
    """The users that are admitted."""

    def __init__(self, users: Mapping[str, User]) -> None:
        self._users = users

    @classmethod
    def read(cls, path: str, roles: Collection[str] = ("*",)) -> Users:
        """Read the users with one of these roles from a file; `*` admits all. Raises InvalidAccess."""
        try:
            with open(path, encoding="utf-8") as file:
                lines = javaproperties.load(file)
        except (OSError, ValueError) as error:
            raise InvalidAccess(f"the users in {path!r} can't be read: {error}") from None
        users = {}
        for name, entry in lines.items():
            password, *own = (each.strip() for each in entry.split(","))
            if not password or password.startswith(_OTHER_FORMS):
                raise InvalidAccess(
                    f"user {name!r} in {path!r} has no usable password: expected "
                    "'user: password[,role…]', with a plain password or MD5:…"
                )
            names = {each.partition(":")[0] for each in own if Grant.of(each)} | set(own)
            if set(roles) & {*_ANY_ROLE, *names}:
                users[name] = User(None if password == _NO_PASSWORD else password, _grants(own, name, path))
        _require_roles(users, path)
        return cls({name: user if user.grants else _of_everything(user) for name, user in users.items()})

    def find(self, name: str) -> User | None:
        return self._users.get(name)

    @property
    def prefixes(self) -> set[str]:
        """The prefixes that limit roles."""
        return {grant.prefix for user in self._users.values() for grant in user.grants} - {""}


class UsersFile:
    """The users of a file, which is read again when it changes.

    A file that has become unusable is logged, and the last users stay. ``check`` raises InvalidAccess for
    users that the server cannot have. Raises InvalidAccess.
    """

    def __init__(self, path: str, roles: Collection[str], check: Callable[[Users], None]) -> None:
        self._path = path
        self._roles = roles
        self._check = check
        self._stamp = self._look()
        self._users = self._read()

    def current(self) -> Users:
        """Return the users of now. This costs a look at the file."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._users = self._read()
                log.info("users read file=%s", self._path)
            except InvalidAccess as error:
                log.warning("users not read, the last ones stay file=%s reason=%s", self._path, error)
        return self._users

    def _look(self) -> tuple[int, int, int] | None:
        try:
            stat = os.stat(self._path)
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _read(self) -> Users:
        users = Users.read(self._path, self._roles)
        self._check(users)
        return users


def _grants(roles: Collection[str], name: str, path: str) -> tuple[Grant, ...]:
    """The roles of a user that have a meaning here. Raises InvalidAccess for one with an empty prefix."""
    for role in roles:
        if role.endswith(":") and role[:-1] in ROLES:
            raise InvalidAccess(f"user {name!r} in {path!r} has {role!r}: expected a prefix after the colon")
    return tuple(grant for role in roles if (grant := Grant.of(role)) is not None)


def _require_roles(users: Mapping[str, User], path: str) -> None:
    """Check that each user has a role if some have a role that limits them. Raises InvalidAccess."""
    uses_roles = any(
        grant.role < Role.ADMIN or grant.prefix for user in users.values() for grant in user.grants
    )
    without = [name for name, user in users.items() if not user.grants]
    if uses_roles and without:
        raise InvalidAccess(
            f"user {without[0]!r} in {path!r} has no role: expected reader, writer or admin, since other "
            "users have them"
        )


def _of_everything(user: User) -> User:
    return User(user.password, (Grant(Role.ADMIN),))
