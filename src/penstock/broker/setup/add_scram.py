"""The users of `penstock storage format --add-scram`, in the syntax of Kafka's kafka-storage.sh (KIP-900).

The syntax is ``MECHANISM=[name=NAME,password=PASSWORD]``, also with ``iterations``, ``salt`` and
``saltedpassword``. Checks and messages are those of Kafka's ScramParser, except that no message shows what
may be a part of a password.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Sequence
from typing import Final

from penstock.metadata.image.scram import credential_record
from penstock.protocol.messages import UserScramCredentialRecord
from penstock.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramMechanism,
    credential,
    salted_password,
)

_SPACES: Final = "".join(map(chr, range(0x21)))
"""The characters that Java's `String.trim` removes."""

_JAVA_BASE64: Final = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?")
_JAVA_INTEGER: Final = re.compile(r"[+-]?0*\d{1,10}")
_JAVA_INTEGERS: Final = range(-(2**31), 2**31)


class InvalidScram(ValueError):
    """An argument does not describe a credential; the message gives the reason."""


def scram_records(arguments: Sequence[str]) -> list[UserScramCredentialRecord]:
    """The records of the credentials that the arguments describe. Raises InvalidScram."""
    return [_record(*_split(argument)) for argument in arguments]


def _split(argument: str) -> tuple[ScramMechanism, dict[str, str]]:
    title, equals, components = argument.strip(_SPACES).partition("=")
    if not equals:
        raise InvalidScram("Failed to find equals sign in SCRAM argument")
    mechanism = ScramMechanism.of_title(title)
    if mechanism is None:
        raise InvalidScram(f"The add-scram mechanism {title} is not supported.")
    if not components.startswith("["):
        raise InvalidScram("Expected configuration string to start with [")
    if not components.endswith("]"):
        raise InvalidScram("Expected configuration string to end with ]")
    return mechanism, dict(map(_component, _java_split(components[1:-1])))


def _java_split(text: str) -> list[str]:
    """Split at commas like Java's `String.split`, which drops empty strings at the end."""
    return text.rstrip(",").split(",") if text.strip(",") or not text else []


def _component(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidScram("No equals sign found in SCRAM component")
    is_quoted = len(value) >= 2 and value.startswith('"') and value.endswith('"')
    return name, value[1:-1] if is_quoted else value


def _record(mechanism: ScramMechanism, components: dict[str, str]) -> UserScramCredentialRecord:
    name, salt, iterations, password, salted = (
        components.pop(key, None) for key in ("name", "salt", "iterations", "password", "saltedpassword")
    )
    if name is None:
        raise InvalidScram("You must supply 'name' to add-scram")
    salt_bytes = None if salt is None else _from_base64("salt", salt)
    rounds = MIN_ITERATIONS if iterations is None else _integer(iterations)
    salted_bytes = None
    if password is None:
        if salted is None:
            raise InvalidScram("You must supply one of 'password' or 'saltedpassword' to add-scram")
        if salt_bytes is None:
            raise InvalidScram("You must supply 'salt' with 'saltedpassword' to add-scram")
        salted_bytes = _from_base64("saltedPassword", salted)
    if components:
        raise InvalidScram(f"Unknown SCRAM configurations: {', '.join(sorted(components))}")
    for is_wrong, sign, limit in (
        (rounds < MIN_ITERATIONS, ">=", MIN_ITERATIONS),
        (rounds > MAX_ITERATIONS, "<=", MAX_ITERATIONS),
    ):
        if is_wrong:
            raise InvalidScram(
                f"The 'iterations' value must be {sign} {limit} for add-scram using {mechanism.name}"
            )
    if salt_bytes is None:
        salt_bytes = secrets.token_bytes(SALT_BYTES)
    if password:
        salted_bytes = salted_password(mechanism, password, salt_bytes, rounds)
    if not salted_bytes:
        raise InvalidScram("The password must not be empty")
    return credential_record(name, mechanism, credential(mechanism, salt_bytes, salted_bytes, rounds))


def _from_base64(name: str, text: str) -> bytes:
    """Decode like Java's decoder, which does not need the padding."""
    if _JAVA_BASE64.fullmatch(text) is None:
        raise InvalidScram(f"Failed to decode given {name}")
    return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


def _integer(text: str) -> int:
    if _JAVA_INTEGER.fullmatch(text) is None or int(text) not in _JAVA_INTEGERS:
        raise InvalidScram(f"Failed to parse iterations count: {text}")
    return int(text)
