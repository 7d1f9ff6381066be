"""The security of one cluster: its authority, the passwords of its users, and the files made of them.

All files are in one directory of the cluster, and those with keys and passwords are for this user alone. A
cluster that continues with the data of an earlier one also continues with its authority and its passwords.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from penstock.metadata.image.acls import acl_record
from penstock.metadata.image.scram import credential_record
from penstock.processes.node import ClusterError
from penstock.protocol.messages import Message
from penstock.protocol.uuids import uuid_from_text
from penstock.security.acls import Acl as AclEntry
from penstock.security.scram import (
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramMechanism,
    credential,
    salted_password,
)
from penstock.storage.directories.meta_properties import random_id
from penstock.testing.security.authority import Authority
from penstock.testing.security.client_settings import Account, jaas, java_settings
from penstock.testing.security.description import ADMIN, NODE, REGISTRY, Acl, Security, principal
from penstock.testing.security.private import write_secret

_STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_NODE_HOSTS: Final = ("127.0.0.1", "localhost", "::1")
_NAME_RULE: Final = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
"""Makes `User:alice` of the certificate `CN=alice`."""
_PASSWORD_BYTES: Final = 18
_USERS: Final = "users.json"
_LISTENER: Final = "listener.name"
OF_REGISTRY: Final = (
    Acl(REGISTRY, ["create", "read", "write", "describe-configs"], topic="_schemas"),
    Acl(REGISTRY, "read", group="schema-registry"),
    Acl(REGISTRY, "write", transactional_id="schema-registry-_schemas"),
)
"""The ACLs that the schema registry needs (docs/security.md, "What applications need")."""


class ClusterSecurity:
    """The security of a cluster as ``wanted``, with its files in ``directory``.

    Raises ClusterError if the directory has the users of a cluster with another protocol or mechanism.
    """

    def __init__(self, wanted: Security, directory: Path, *, with_registry: bool) -> None:
        self.wanted = wanted
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._authority = Authority(directory)
        own = [REGISTRY] if with_registry else []
        self._own_acls = OF_REGISTRY if with_registry else ()
        earlier = self._earlier()
        self.continues = bool(earlier)
        """Whether the cluster continues with the data of an earlier one."""
        self.is_established = False
        """Whether the cluster's metadata has the users and ACLs."""
        self._passwords = dict(earlier)
        for name in (NODE, ADMIN, *own, *wanted.users):
            given = wanted.users.get(name) if isinstance(wanted.users, Mapping) else None
            self._passwords[name] = given or earlier.get(name) or secrets.token_urlsafe(_PASSWORD_BYTES)
        self.later_users = {name: word for name, word in self._passwords.items() if earlier.get(name) != word}
        """The users, with passwords, that the data of an earlier cluster does not have."""
        if not self.continues:
            self._save()

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority."""
        return self._authority.certificate_file

    @property
    def scram(self) -> ScramMechanism | None:
        """The mechanism for which the cluster's metadata has the passwords, if it is one of SCRAM."""
        return ScramMechanism.of_title(self.wanted.mechanism) if self.wanted.uses_sasl else None

    @property
    def entries(self) -> list[AclEntry]:
        """The ACLs that the cluster begins with; none without an authorizer."""
        if self.wanted.acls is None:
            return []
        return [entry for acl in (*self.wanted.acls, *self._own_acls) for entry in acl.entries()]

    def first_records(self) -> list[Message]:
        """The records of the metadata with which a new cluster has its users and ACLs from its start on."""
        if self.continues or self.is_established:
            return []
        records: list[Message] = [acl_record(uuid_from_text(random_id()), each) for each in self.entries]
        if self.scram is not None:
            for name, password in self._passwords.items():
                salt = secrets.token_bytes(SALT_BYTES)
                salted = salted_password(self.scram, password, salt, MIN_ITERATIONS)
                keys = credential(self.scram, salt, salted, MIN_ITERATIONS)
                records.append(credential_record(name, self.scram, keys))
        return records

    def node_properties(self) -> dict[str, str]:
        """The properties of every node. Controllers know each other by the nodes' certificate."""
        protocol = self.wanted.protocol
        made = {
            "listener.security.protocol.map": f"CONTROLLER:SSL,{protocol}:{protocol}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._authority.store(NODE, *_NODE_HOSTS)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "ssl.principal.mapping.rules": _NAME_RULE,
            f"{_LISTENER}.controller.ssl.client.auth": "required",
        }
        if self.wanted.uses_sasl:
            made |= self._sasl_properties()
        else:
            made[f"{_LISTENER}.{protocol.lower()}.ssl.client.auth"] = "required"
        if self.wanted.acls is not None:
            supers = dict.fromkeys((NODE, ADMIN, *self.wanted.super_users))
            made |= {
                "authorizer.class.name": _STANDARD_AUTHORIZER,
                "super.users": ";".join(map(principal, supers)),
            }
        return made

    def _sasl_properties(self) -> dict[str, str]:
        mechanism = self.wanted.mechanism
        login = {"username": NODE, "password": self._passwords[NODE]}
        if mechanism == "PLAIN":
            login |= {f"user_{name}": password for name, password in self._passwords.items()}
        prefix = f"{_LISTENER}.{self.wanted.protocol.lower()}.{mechanism.lower()}"
        return {
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.inter.broker.protocol": mechanism,
            f"{prefix}.sasl.jaas.config": jaas(mechanism, login),
        }

    def account(self, user: str) -> Account:
        """The account with which clients log in as a user. Raises KeyError for an unknown one."""
        if user not in self._passwords:
            known = sorted(self._passwords.keys() - {NODE, REGISTRY})
            raise KeyError(f"user {user}: expected one of {known}")
        wanted = self.wanted
        return Account(
            wanted.protocol,
            user,
            wanted.mechanism if wanted.uses_sasl else None,
            self._passwords[user] if wanted.uses_sasl else "",
            self.ca_file if wanted.uses_tls else None,
            None if wanted.uses_sasl else self._authority.store(user),
        )

    def properties_file(self, user: str) -> Path:
        """The file with a user's properties for `--command-config` and Kafka's tools. Raises KeyError."""
        import javaproperties

        file = self._directory / f"{quote(user, safe='')}.properties"
        properties = java_settings(self.account(user))
        write_secret(file, javaproperties.dumps(properties, timestamp=False).encode("latin-1"))
        return file

    def add_user(self, name: str, password: str | None) -> str:
        """Remember a user that the running cluster gets, and return the password."""
        self.wanted.check_name(name)
        self._passwords[name] = password or secrets.token_urlsafe(_PASSWORD_BYTES)
        self._save()
        return self._passwords[name]

    def establish(self) -> None:
        """Keep what the running cluster has now, for one that continues with its data."""
        self.is_established = True
        self._save()

    def _earlier(self) -> dict[str, str]:
        """The passwords of the users that the cluster's data has. Raises ClusterError."""
        file = self._directory / _USERS
        if not file.exists():
            return {}
        found = json.loads(file.read_text())
        if found["kind"] != self._kind:
            raise ClusterError(
                f"{self._directory} has the users of a cluster with {found['kind']}, expected {self._kind}"
            )
        return dict(found["users"])

    def _save(self) -> None:
        content = {"kind": self._kind, "users": self._passwords}
        write_secret(self._directory / _USERS, json.dumps(content).encode())

    @property
    def _kind(self) -> str:
        return " and ".join(
            [self.wanted.protocol, *([self.wanted.mechanism] if self.wanted.uses_sasl else [])]
        )
