"""Two nodes in the same state, which get the same requests, and the parts of answers that must be equal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from random_requests import GROUPS, NO_ID, TOPICS, TRANSACTION_TIMEOUT_MS, TRANSACTIONS, Plan, Ref, Who

from broker_wire import batch_of
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey, response_class
from penstock.protocol.codec import Message, MessageStruct
from penstock.protocol.errors import ErrorCode
from token_wire import PLAIN, SECRET, TokenWire
from waiting import wait_until

NODE_USERS: Final = ("node", "admin", "ann", "bob", "carl")
JAAS: Final = (
    f'{PLAIN} required username="node" password="of-node" '
    + " ".join(f'user_{user}="of-{user}"' for user in NODE_USERS)
    + ";"
)
SETTINGS: Final = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "listener.name.controller.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:admin",
    "delegation.token.secret.key": SECRET,
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.segment.delete.delay.ms": "1000",
}
ADMIN: Final = Who("admin", "127.0.0.1", "broker")
CLOSED: Final = "closed"
HANGS: Final = "hangs"
NOTHING: Final = "no answer, and open"
ANSWER_TIMEOUT_S: Final = 20
AGREEMENT_S: Final = 1.0
"""The time for the metadata of both nodes to follow the last change."""

CHANGING: Final = frozenset(
    {
        *(ApiKey.PRODUCE, ApiKey.DELETE_RECORDS),
        *(ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP, ApiKey.DELETE_GROUPS),
        *(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE),
        *(ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN),
        *(ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN, ApiKey.WRITE_TXN_MARKERS),
        *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS),
        *(ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS),
        *(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.UPDATE_FEATURES),
        *(ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
        *(ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
        *(ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN),
    }
)
"""The requests that may change a node. All others can be asked twice."""

HIDDEN: Final = frozenset(
    {
        "throttle_time_ms",
        *("host", "port", "cluster_id", "endpoints", "node_endpoints", "nodes"),
        *("error_message", "documentation"),
        *("log_dir", "partition_size", "total_bytes", "usable_bytes", "offset_lag"),
        *("token_id", "hmac", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
        *("issue_timestamp", "expiry_timestamp", "max_timestamp"),
        *("auth_bytes", "session_lifetime_ms", "mechanisms"),
        *("transaction_start_time_ms", "last_timestamp", "timestamp", "session_id"),
        *("leader_epoch", "high_watermark", "current_voters", "observers"),
    }
)
"""The fields of answers that every node fills with its own values."""


OFFSETS: Final = frozenset({"offset", "end_offset", "last_stable_offset", "log_start_offset", "records"})
"""The fields that every node fills with its own values in the answers for internal topics."""


CONFIGS_SHOWN_MAX: Final = 5
"""All configs of a resource are more, and some are Penstock's own."""

KEPT: Final = [m.AlterConfigsRequest.AlterableConfig(name="min.insync.replicas", value="1")]
"""The configs of all brokers that cannot be removed (KIP-966)."""

LOG_LEVEL: Final = 6
"""The source of a config that is the level of a logger: every node has its own loggers."""

REMOVED: Final = ("acls", "quotas", "users", "groups", "tokens")
"""The parts of a node's state that are empty before a round, beside the topics."""


class Side:
    """One of the nodes, with its ids of the topics, producers and tokens that requests name."""

    def __init__(self, broker: str, controller: str) -> None:
        self._addresses = {"broker": broker, "controller": controller}
        self._wires: dict[Who, TokenWire] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.producers: dict[str, tuple[int, int]] = {}
        self.tokens: list[bytes] = []

    def wire(self, who: Who) -> TokenWire:
        wire = self._wires.get(who)
        if wire is None:
            wire = TokenWire(self._addresses[who.listener], ANSWER_TIMEOUT_S, who.source).as_user(who.user)
            self._wires[who] = wire
        return wire

    def close(self, who: Who | None = None) -> None:
        for each in [who] if who else list(self._wires):
            self._wires.pop(each).__exit__()

    # Requests

    def send(self, plan: Plan) -> None:
        request = plan.build(self.resolve)
        self.wire(plan.who).send(request, plan.version, answered=is_answered(request))

    def answer(self, plan: Plan) -> Message | str:
        """Return the answer. If the request has none, return whether the connection is still open."""
        wire = self.wire(plan.who)
        try:
            if plan.key is ApiKey.PRODUCE and plan.fields["acks"] == 0:
                wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), m.SaslHandshakeResponse)
                return NOTHING
            response = wire.receive(response_class(plan.key))
        except (ConnectionError, TimeoutError) as error:
            self.close(plan.who)
            return CLOSED if isinstance(error, ConnectionError) else HANGS
        self._learn(plan, response)
        return response

    def resolve(self, ref: Ref) -> Any:
        producer = self.producers.get(str(ref.key), (54321, 0))
        match ref.kind:
            case "topic id":
                return self.topic_ids.get(ref.key, ref.key.encode().ljust(16, b"-")[:16])
            case "producer id":
                return producer[0]
            case "producer epoch":
                return producer[1]
            case "token":
                return self.tokens[ref.key] if ref.key < len(self.tokens) else b"no token"
            case "batch":
                return batch_of(b"v", timestamp=START_MS)
            case _:
                transactional = ref.kind == "transactional batch"
                return batch_of(
                    b"v", timestamp=START_MS, producer=(*producer, 0), transactional=transactional
                )

    def _learn(self, plan: Plan, response: Message) -> None:
        if getattr(response, "error_code", 0):
            return
        if isinstance(response, m.InitProducerIdResponse) and plan.fields["transactional_id"]:
            self.producers[plan.fields["transactional_id"]] = (response.producer_id, response.producer_epoch)
        if isinstance(response, m.EndTxnResponse) and response.producer_id >= 0:
            name = plan.fields["transactional_id"]
            self.producers[name] = (response.producer_id, response.producer_epoch)
        if isinstance(response, m.CreateDelegationTokenResponse):
            self.tokens.append(response.hmac)

    # The state

    def ask_all(self, *requests: Message) -> list[Any]:
        """The administrator's answers."""
        wire = self.wire(ADMIN)
        for request in requests:
            wire.send(request)
        return [wire.receive(response_class(request.ID)) for request in requests]

    def state(self) -> dict[str, Any]:
        """Return everything that requests may change, and note the ids of the topics."""
        topics, acls, quotas, users, groups, transactions, offsets, tokens = self.ask_all(
            m.MetadataRequest(topics=None),
            all_acls(m.DescribeAclsRequest()),
            m.DescribeClientQuotasRequest(),
            m.DescribeUserScramCredentialsRequest(),
            m.ListGroupsRequest(),
            m.ListTransactionsRequest(),
            m.OffsetFetchRequest(
                groups=[m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=g, topics=None) for g in GROUPS]
            ),
            m.DescribeDelegationTokenRequest(owners=None),
        )
        self.topic_ids = {each.name: each.topic_id for each in topics.topics}
        return {
            "topics": {each.name: len(each.partitions) for each in topics.topics},
            "acls": sorted(
                (found.resource_type, found.resource_name, found.pattern_type, str(acl))
                for found in acls.resources
                for acl in found.acls
            ),
            "quotas": sorted(map(str, quotas.entries or ())),
            "users": sorted(map(str, users.results)),
            "groups": sorted((each.group_id, each.group_state) for each in groups.groups),
            "transactions": sorted(
                (each.transactional_id, each.transaction_state) for each in transactions.transaction_states
            ),
            "offsets": sorted(self.shown(each) for each in offsets.groups),
            "tokens": len(tokens.tokens),
        }

    def prepare(self) -> None:
        """Create the internal topics, so that they exist from the first request on."""
        for kind, keys in ((0, GROUPS), (1, TRANSACTIONS)):
            find = m.FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
            wait_until(
                lambda find=find: not any(each.error_code for each in self.ask_all(find)[0].coordinators)
            )

    def reset(self, acls: list[dict[str, Any]]) -> None:
        """Restore the topics, groups and transactional ids that exist, remove all else, and set the ACLs."""
        self._end_transactions()
        for token in self.tokens:
            self._expire(token)
        self.tokens.clear()
        self._remove_all()
        self._make_all(acls)

    def _end_transactions(self) -> None:
        states = self.ask_all(m.ListTransactionsRequest())[0].transaction_states
        names = {each.transactional_id for each in states if each.transaction_state != "Empty"}
        for name in sorted(names | set(TRANSACTIONS)):
            wait_until(lambda name=name: self._init(name))

    def _init(self, name: str) -> bool:
        init = m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        [found] = self.ask_all(init)
        self.producers[name] = (found.producer_id, found.producer_epoch)
        return not found.error_code

    def _expire(self, token: bytes) -> None:
        request = m.ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=-1)
        for user in ("admin", "ann", "bob", "carl"):
            wire = self.wire(Who(user, "127.0.0.1", "broker"))
            if not wire.ask(request, m.ExpireDelegationTokenResponse).error_code:
                return

    def _remove_all(self) -> None:
        quotas, users, groups = self.ask_all(
            m.DescribeClientQuotasRequest(), m.DescribeUserScramCredentialsRequest(), m.ListGroupsRequest()
        )
        self.ask_all(m.DeleteGroupsRequest(groups_names=[each.group_id for each in groups.groups]))
        alter = m.AlterClientQuotasRequest
        self.ask_all(
            m.DeleteAclsRequest(filters=[all_acls(m.DeleteAclsRequest.DeleteAclsFilter())]),
            alter(
                entries=[
                    alter.EntryData(
                        entity=[
                            alter.EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                            for each in entry.entity
                        ],
                        ops=[alter.OpData(key=value.key, remove=True) for value in entry.values],
                    )
                    for entry in quotas.entries or ()
                ]
            ),
            m.AlterUserScramCredentialsRequest(
                deletions=[
                    m.AlterUserScramCredentialsRequest.ScramCredentialDeletion(
                        name=each.user, mechanism=info.mechanism
                    )
                    for each in users.results
                    for info in each.credential_infos
                ]
            ),
            m.AlterConfigsRequest(
                resources=[
                    m.AlterConfigsRequest.AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configs=KEPT if (kind, name) == (4, "") else [],
                    )
                    for kind, name in [(4, "1"), (4, ""), *[(32, name) for name in (*GROUPS, "g-none", "h")]]
                ]
            ),
            m.DeleteTopicsRequest(
                topics=[
                    m.DeleteTopicsRequest.DeleteTopicState(name=name)
                    for name in self.state()["topics"]
                    if not name.startswith("__")
                ],
                timeout_ms=10_000,
            ),
        )
        wait_until(lambda: not self._left())

    def _left(self) -> list[Any]:
        """Return everything that requests have made and that still exists."""
        state = self.state()
        topics = [name for name in state["topics"] if not name.startswith("__")]
        return [left for left in (*(state[name] for name in REMOVED), topics) if left]

    def _make_all(self, acls: list[dict[str, Any]]) -> None:
        create = m.CreateTopicsRequest
        topics = [
            create.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            for name, partitions in TOPICS.items()
        ]
        creations = [m.CreateAclsRequest.AclCreation(**acl) for acl in acls]
        self.ask_all(create(topics=topics, timeout_ms=10_000), m.CreateAclsRequest(creations=creations))
        wait_until(lambda: self.state()["topics"].keys() >= TOPICS.keys())
        for name in TOPICS:
            wait_until(
                lambda name=name: self.wire(ADMIN).produce(name, self.resolve(Ref("batch"))).error_code == 0
            )
        for group, names in (("g-a", tuple(TOPICS)), ("g-b", ("t-b",))):
            wait_until(lambda group=group, names=names: self._commit(group, names))
        wanted = len({str(acl) for acl in acls})
        wait_until(lambda: len(self.state()["acls"]) == wanted)

    def _commit(self, group: str, names: tuple[str, ...]) -> bool:
        commit = m.OffsetCommitRequest
        partition = commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topics = [
            commit.OffsetCommitRequestTopic(topic_id=self.topic_ids[name], partitions=[partition])
            for name in names
        ]
        [answer] = self.ask_all(commit(group_id=group, topics=topics))
        return all(each.partitions[0].error_code == 0 for each in answer.topics)

    # Answers

    def shown(self, answer: MessageStruct | str, hidden: frozenset[str] = HIDDEN) -> str:
        """The parts of an answer that must be equal: lists are sorted by their text, and ids have names."""
        return answer if isinstance(answer, str) else " ".join(self._parts(answer, hidden))

    def _parts(self, struct: MessageStruct, hidden: frozenset[str]) -> Iterator[str]:
        names = (getattr(struct, name, None) or "" for name in ("topic", "name", "topic_name"))
        if any(str(name).startswith("__") for name in names):
            hidden |= OFFSETS
        for name in struct.FIELDS:
            value = getattr(struct, name)
            if name == "error_message" and value == "":
                yield "error_message=''"
            if name in hidden:
                continue
            if name.endswith("error_code"):
                yield ErrorCode.of(value).name
            elif value in ("", None, [], -1, -(2**31)):
                continue
            elif name == "configs" and (len(value) > CONFIGS_SHOWN_MAX or are_log_levels(value)):
                yield "all configs"
            elif isinstance(value, list):
                yield f"{name}[{', '.join(sorted(self._element(each, hidden) for each in value))}]"
            elif isinstance(value, MessageStruct):
                yield f"{name}({self.shown(value, hidden)})"
            else:
                yield f"{name}={self._value(name, value)}"

    def _element(self, value: Any, hidden: frozenset[str]) -> str:
        return self.shown(value, hidden) if isinstance(value, MessageStruct) else str(value)

    def _value(self, name: str, value: Any) -> object:
        match name:
            case "topic_id":
                names = {topic_id: name for name, topic_id in self.topic_ids.items()}
                return "none" if value == NO_ID else names.get(value, "unknown")
            case "producer_id":
                return sorted(name for name, (known, _) in self.producers.items() if known == value) or "new"
            case "member_id":
                return value if value == "stranger" else "made"
            case "records":
                return bool(value)
        return value


START_MS: Final = time.time_ns() // 1_000_000


def are_log_levels(configs: list[Any]) -> bool:
    return any(getattr(config, "config_source", 0) == LOG_LEVEL for config in configs)


def is_answered(request: Message) -> bool:
    return not (isinstance(request, m.ProduceRequest) and request.acks == 0)


def all_acls(filter_: Any) -> Any:
    """The filter that every ACL passes."""
    filter_.resource_type_filter = filter_.pattern_type_filter = 1
    filter_.resource_name_filter = filter_.principal_filter = filter_.host_filter = None
    filter_.operation = filter_.permission_type = 1
    return filter_


class Pair:
    """Both nodes: ours, and Kafka's."""

    def __init__(self, penstock: Side, kafka: Side) -> None:
        self._sides = (penstock, kafka)
        self._pool = ThreadPoolExecutor(2)
        list(self._pool.map(Side.prepare, self._sides))

    def reset(self, acls: list[dict[str, Any]]) -> None:
        list(self._pool.map(lambda side: side.reset(acls), self._sides))

    def ask(self, plan: Plan) -> tuple[str, str]:
        """Return both answers as `Side.shown` has them. What only reads is sent again until they agree."""
        ours, theirs = self._ask_once(plan)
        deadline_s = time.monotonic() + (
            0 if plan.key in CHANGING or HANGS in (ours, theirs) else AGREEMENT_S
        )
        while ours != theirs and time.monotonic() < deadline_s:
            ours, theirs = self._ask_once(plan)
        return ours, theirs

    def _ask_once(self, plan: Plan) -> tuple[str, str]:
        for side in self._sides:
            side.send(plan)
        ours, theirs = (side.shown(side.answer(plan)) for side in self._sides)
        return ours, theirs

    def different_states(self, plan: Plan) -> list[str]:
        """Return the parts of the state that stay different after a request that may have changed it."""
        if plan.key not in CHANGING:
            return []
        deadline_s = time.monotonic() + AGREEMENT_S * 5
        while True:
            ours, theirs = self._pool.map(Side.state, self._sides)
            under_way = any("Prepare" in state for _, state in theirs["transactions"])
            if (ours == theirs and not under_way) or time.monotonic() > deadline_s:
                return [
                    f"{name}: {ours[name]} and {theirs[name]}" for name in ours if ours[name] != theirs[name]
                ]

    def close(self) -> None:
        for side in self._sides:
            side.close()
        self._pool.shutdown()
