"""A client that needs permissions: it checks that nodes let it in, and decide, as their metadata says.

It logs in with a password or a delegation token, creates tokens, and removes them.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.broker.peers import Dial
from penstock.broker.peers.sasl_link import SaslDial
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from penstock.security.acls import Operation, PatternType, PermissionType, ResourceType
from penstock.security.delegation_tokens import password_of
from penstock.security.sasl.clients import Login
from penstock.testing.simulator.access import (
    GUESTS_PORT,
    MECHANISM,
    Access,
    has_password,
    is_allowed,
)
from penstock.testing.simulator.clients.client import Address, Client, ClientSettings, NoAnswer
from penstock.testing.simulator.history import Partition, Violation
from penstock.testing.simulator.nodes import VirtualNode

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage

OPERATIONS: Final = (Operation.DESCRIBE, Operation.READ, Operation.ALTER)
LATEST: Final = -1
NO_DECISION: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""The answers of nodes that do not know the topic or the ACLs yet, or that reach no controller."""
REFUSED: Final = "login refused"


class Guest(Client):
    """A guest that talks to one node at a time.

    An answer can be checked if the node's metadata about guests was the same before the request and after its
    answer.

    Args:
        user: the name by which it logs in.
        partitions: the partitions of topics that are never deleted.
    """

    def __init__(
        self,
        settings: ClientSettings,
        name: str,
        rng: Random,
        user: str,
        access: Access,
        nodes: dict[int, VirtualNode],
        partitions: list[Partition],
    ) -> None:
        super().__init__(settings, name, rng)
        self.user = user
        self.logins = 0
        self.decisions = 0
        self._access = access
        self._nodes = nodes
        self._partitions = partitions
        self._login = Login(user, "none yet")

    def dial(self) -> Dial:
        login = self._login
        return SaslDial(super().dial(), MECHANISM.title, lambda _host: login, self.rng)

    async def run(self) -> None:
        while not self.stopping:
            await self.pause(0.15)
            if self.rng.random() < 0.3:
                self._log_in_by(self.rng.choice([Login(self.user, "wrong"), self._login, *self._logins()]))
            node_id = self.rng.choice(list(self.settings.bootstrap))
            chance = self.rng.random()
            if chance < 0.1:
                await self._create_token(node_id)
            elif chance < 0.15:
                await self._remove_token(node_id)
            else:
                await self._visit(node_id, self.rng.choice(OPERATIONS))

    def start_last_visits(self) -> None:
        """Begin the client's last work, once all is quiet."""
        self.task = None
        self.loop.on(self.machine, self._begin_last_visits)

    def _begin_last_visits(self) -> None:
        self.task = self.loop.create_task(self._visit_all(), name=f"{self.name}, last visits")

    async def _visit_all(self) -> None:
        """Try each operation at each node; all must answer, and decide as the metadata says."""
        for node_id in self.settings.bootstrap:
            for operation in OPERATIONS:
                self._log_in_by(self.rng.choice(self._logins() or [Login(self.user, "wrong")]))
                while not await self._visit(node_id, operation):
                    await self.pause()

    def _logins(self) -> list[Login]:
        """The logins that should succeed, or might."""
        passwords = self._access.passwords[self.user].possible
        by_password = [Login(self.user, each) for each in sorted(filter(None, passwords))]
        tokens = self._access.tokens[self.user].items()
        return [*by_password, *(Login(token_id, password, by_token=True) for token_id, password in tokens)]

    def _log_in_by(self, login: Login) -> None:
        """Begin new connections with this login."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
        self._login = login

    async def _visit(self, node_id: int, operation: Operation) -> bool:
        """Log in, if there is no connection, and try an operation. Returns whether there was an answer."""
        node = self._nodes[node_id]
        address = self._address(node_id)
        is_new = address not in self._peers
        before = self._state(node)
        topic = self.rng.choice(self._partitions).topic
        refused = code = None
        try:
            code = await self._try(address, operation, topic)
        except NoAnswer as error:
            refused = REFUSED in str(error)
            if not refused:
                return False
        if before is None or before != self._state(node):
            return True
        assert node.broker is not None
        image = node.broker.image
        if refused or is_new:
            self._check_login(node_id, refused is True, self._is_right(image))
        if code is not None and code not in NO_DECISION:
            # Guests may never change ACLs, which a broker asks the controller to do.
            allowed = operation is not Operation.ALTER and is_allowed(
                image, self.user, self.machine.host, operation, topic
            )
            self._check_decision(node_id, f"{operation.name} of {topic}", code, allowed)
        return True

    def _state(self, node: VirtualNode) -> object:
        """The state that the node decides by about this guest; None until it has loaded its metadata."""
        broker = node.broker
        if broker is None or not node.is_up:
            return None
        authorizer = broker.authorization.authorizer
        assert authorizer is not None
        if not authorizer.is_ready:
            return None
        image = broker.image
        credential = image.scram.credential(MECHANISM, self.user)
        has_token = self._login.username in image.delegation_tokens
        return node.incarnation, image.acls.version, credential, has_token

    def _is_right(self, image: MetadataImage) -> bool:
        """Whether the login is one that nodes accept, according to the image."""
        if self._login.by_token:
            return self._login.username in image.delegation_tokens
        return has_password(image, self.user, self._login.password)

    def _check_login(self, node_id: int, is_refused: bool, is_right: bool) -> None:
        self.logins += not is_refused
        if is_refused is is_right:
            outcome = "refused" if is_refused else "let in"
            raise Violation(
                f"node {node_id} has {outcome} {self.user} with a {'right' if is_right else 'wrong'} login"
            )

    def _check_decision(self, node_id: int, what: str, code: ErrorCode, allowed: bool) -> None:
        self.decisions += 1
        denials = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if (code in denials) is allowed:
            raise Violation(
                f"node {node_id} answered {code.name} to {self.user}, {what}, which its ACLs "
                f"{'allow' if allowed else 'deny'}"
            )

    # Tokens

    async def _create_token(self, node_id: int) -> None:
        try:
            created = await self.ask(
                self._address(node_id), CreateDelegationTokenRequest(), CreateDelegationTokenResponse
            )
        except NoAnswer:
            return
        code = ErrorCode.of(created.error_code)
        if self._login.by_token and code is not ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
            raise self.unexpected("a token that asks for another one", code)
        if code is ErrorCode.NONE:
            password = password_of(bytes(created.hmac))
            self._access.tokens[self.user][created.token_id] = password
            self._access.changes += 1

    async def _remove_token(self, node_id: int) -> None:
        """Remove a token, with the same login until there is an answer."""
        tokens = self._access.tokens[self.user]
        if self._login.by_token or not tokens:
            return
        token_id = self.rng.choice(list(tokens))
        token_hmac = base64.b64decode(tokens.pop(token_id))
        request = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=-1)
        with suppress(NoAnswer):
            answer = await self.ask(self._address(node_id), request, ExpireDelegationTokenResponse)
            if not answer.error_code:
                self._access.removed_tokens.add(token_id)
                self._access.changes += 1

    def _address(self, node_id: int) -> Address:
        return self.settings.bootstrap[node_id]._replace(port=GUESTS_PORT)

    # Operations

    async def _try(self, address: Address, operation: Operation, topic: str) -> ErrorCode:
        """Send the request for an operation. Raises NoAnswer."""
        if operation is Operation.DESCRIBE:
            return await self._list_offsets(address, topic)
        return await (self._fetch(address, topic) if operation is Operation.READ else self._grant(address))

    async def _list_offsets(self, address: Address, topic: str) -> ErrorCode:
        wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        answer = await self.ask(address, request, ListOffsetsResponse)
        return ErrorCode.of(answer.topics[0].partitions[0].error_code)

    async def _fetch(self, address: Address, topic: str) -> ErrorCode:
        topic_id = next(found.topic_id for found in self._partitions if found.topic == topic)
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchRequest.FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])]
        request = FetchRequest(
            max_wait_ms=20, min_bytes=1, max_bytes=1000, session_id=0, session_epoch=-1, topics=topics
        )
        answer = await self.ask(address, request, FetchResponse)
        return ErrorCode.of(answer.error_code or answer.responses[0].partitions[0].error_code)

    async def _grant(self, address: Address) -> ErrorCode:
        """Try to get all permissions."""
        creation = CreateAclsRequest.AclCreation(
            resource_type=int(ResourceType.TOPIC),
            resource_name="*",
            resource_pattern_type=int(PatternType.LITERAL),
            principal=f"User:{self.user}",
            host="*",
            operation=int(Operation.ALL),
            permission_type=int(PermissionType.ALLOW),
        )
        answer = await self.ask(address, CreateAclsRequest(creations=[creation]), CreateAclsResponse)
        return ErrorCode.of(answer.results[0].error_code)
