"""An administrator of guests: it creates and deletes their ACLs, and sets their passwords and quotas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeVar

from penstock.metadata.image.client_quotas import CONSUMER_BYTE_RATE, USER
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from penstock.security.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from penstock.security.scram import MIN_ITERATIONS, salted_password
from penstock.testing.simulator.access import GUESTS, MECHANISM, Access, Changing, salt_of
from penstock.testing.simulator.clients.admin import ASK_AGAIN
from penstock.testing.simulator.clients.client import Client, ClientSettings, NoAnswer

ACLS_MAX: Final = 12

R = TypeVar("R", bound=Message)
V = TypeVar("V")


class AccessAdmin(Client):
    """An administrator that repeats each request until it is answered.

    Args:
        topics: the topics that ACLs are about.
        hosts: the hosts of guests.
    """

    def __init__(
        self,
        settings: ClientSettings,
        name: str,
        rng: Random,
        access: Access,
        topics: Sequence[str],
        hosts: Sequence[str],
    ) -> None:
        super().__init__(settings, name, rng)
        self._access = access
        self._topics = topics
        self._hosts = hosts
        self._used: set[Acl] = set()
        self._lingering: set[Acl] = set()
        """The ACLs that a request without an answer may create at any later time."""
        self._made = 0
        """The number of passwords and quotas so far."""

    async def run(self) -> None:
        for guest in GUESTS:
            await self._set_password(guest)
        while not self.stopping:
            await self.pause(0.25)
            chance = self.rng.random()
            if chance < 0.15:
                await self._set_password(self.rng.choice(GUESTS))
            elif chance < 0.2:
                await self._delete_user(self.rng.choice(GUESTS))
            elif chance < 0.3:
                await self._set_quota(self.rng.choice(GUESTS))
            elif self._access.acls and (chance < 0.6 or len(self._access.acls) >= ACLS_MAX):
                await self._delete(self.rng.choice(sorted(self._access.acls)))
            else:
                await self._create(self._new_acl())

    # ACLs

    def _new_acl(self) -> Acl:
        """An ACL that was never created before."""
        topic = self.rng.choice(self._topics)
        literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
        prefix = topic[: self.rng.randint(1, len(topic))]
        name, pattern = self.rng.choice([(topic, literal), (prefix, prefixed), ("*", literal)])
        made = Acl(
            ResourceType.TOPIC,
            name,
            pattern,
            self.rng.choice([*(f"User:{guest}" for guest in GUESTS), "User:*"]),
            self.rng.choice(["*", *self._hosts, f"10.2.0.{self.rng.randint(1, 250)}"]),
            self.rng.choice([Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL]),
            self.rng.choices([PermissionType.ALLOW, PermissionType.DENY], (3, 1))[0],
        )
        if made in self._used:
            return self._new_acl()
        self._used.add(made)
        return made

    async def _create(self, acl: Acl) -> None:
        creation = CreateAclsRequest.AclCreation(
            resource_type=int(acl.resource_type),
            resource_name=acl.resource_name,
            resource_pattern_type=int(acl.pattern_type),
            principal=acl.principal,
            host=acl.host,
            operation=int(acl.operation),
            permission_type=int(acl.permission_type),
        )
        self._access.uncertain.add(acl)
        request = CreateAclsRequest(creations=[creation])
        while True:
            answer = await self._attempt(request, CreateAclsResponse)
            if answer is None:
                self._lingering.add(acl)
            elif self._is_done(f"CreateAcls {acl}", answer.results[0].error_code):
                break
            await self.pause()
        self._access.acls.add(acl)
        self._access.uncertain.discard(acl)
        self._access.changes += 1

    async def _delete(self, acl: Acl) -> None:
        self._access.acls.discard(acl)
        self._access.uncertain.add(acl)
        wanted = DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=int(acl.resource_type),
            resource_name_filter=acl.resource_name,
            pattern_type_filter=int(acl.pattern_type),
            principal_filter=acl.principal,
            host_filter=acl.host,
            operation=int(acl.operation),
            permission_type=int(acl.permission_type),
        )
        request = DeleteAclsRequest(filters=[wanted])
        while True:
            answer = await self._attempt(request, DeleteAclsResponse)
            if answer is not None and self._is_done(f"DeleteAcls {acl}", answer.filter_results[0].error_code):
                break
            await self.pause()
        if acl not in self._lingering:
            self._access.uncertain.discard(acl)
        self._access.changes += 1

    # Passwords

    async def _set_password(self, guest: str) -> None:
        self._made += 1
        password = f"secret{self._made}"
        salt = salt_of(password)
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=guest,
            mechanism=int(MECHANISM),
            iterations=MIN_ITERATIONS,
            salt=salt,
            salted_password=salted_password(MECHANISM, password, salt, MIN_ITERATIONS),
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        await self._alter_user(guest, password, request)

    async def _delete_user(self, guest: str) -> None:
        deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(
            name=guest, mechanism=int(MECHANISM)
        )
        request = AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])
        await self._alter_user(guest, None, request)

    async def _alter_user(
        self, guest: str, password: str | None, request: AlterUserScramCredentialsRequest
    ) -> None:
        response = AlterUserScramCredentialsResponse
        await self._replace(
            self._access.passwords[guest],
            password,
            request,
            response,
            lambda answer: answer.results[0].error_code,
        )

    # Quotas

    async def _set_quota(self, guest: str) -> None:
        self._made += 1
        quota = 10_000.0 + self._made if self.rng.random() < 0.8 else None
        entity = AlterClientQuotasRequest.EntityData(entity_type=USER, entity_name=guest)
        change = AlterClientQuotasRequest.OpData(
            key=CONSUMER_BYTE_RATE, value=quota or 0.0, remove=quota is None
        )
        request = AlterClientQuotasRequest(
            entries=[AlterClientQuotasRequest.EntryData(entity=[entity], ops=[change])], validate_only=False
        )
        response = AlterClientQuotasResponse
        await self._replace(
            self._access.quotas[guest], quota, request, response, lambda answer: answer.entries[0].error_code
        )

    async def _replace(
        self,
        changing: Changing[V],
        value: V | None,
        request: Message,
        kind: type[R],
        error_code_of: Callable[[R], int],
    ) -> None:
        changing.requested(value)
        while True:
            answer = await self._attempt(request, kind)
            if answer is None:
                changing.abandoned(value)
            elif self._is_done(f"{type(request).__name__} {value}", error_code_of(answer)):
                break
            await self.pause()
        changing.confirmed(value)
        self._access.changes += 1

    # Requests

    async def _attempt(self, request: Message, kind: type[R]) -> R | None:
        """Send a request to any node; None without an answer."""
        address = self.rng.choice(list(self.settings.bootstrap.values()))
        try:
            return await self.ask(address, request, kind)
        except NoAnswer:
            return None

    def _is_done(self, what: str, error_code: int) -> bool:
        """Whether the request was executed, and need not be repeated. Raises Violation."""
        code = ErrorCode.of(error_code)
        # An earlier attempt without an answer may have deleted the user.
        if code in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND):
            return True
        if code.retriable or code in ASK_AGAIN:
            return False
        raise self.unexpected(what, code)
