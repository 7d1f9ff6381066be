"""Fetch (1): send record batches from the log to the socket without decoding them.

Versions 4 to 18. Records are sent as slices of segment files (`sendfile`). A fetch that finds less than
`min_bytes` waits in the purgatory. A worker first reads and checks data that is not in memory or was not
checked since it was read from the disk (`broker.cold_reads`). Followers read to the log's end, and their
fetch offsets report their progress (`broker.replication`).

Consumers need READ on the topic, followers CLUSTER_ACTION on the cluster. A fetch that waits is checked again
before it is answered. Differences from Kafka:
- damaged batches are never sent: the client gets CORRUPT_MESSAGE, while Kafka leaves their detection to it;
- a response ends with a whole batch, never with a torn one;
- a session that holds the id of a deleted topic gets UNKNOWN_TOPIC_ID like all other requests, not first
  UNKNOWN_TOPIC_OR_PARTITION and, once a topic of that name exists again, INCONSISTENT_TOPIC_ID;
- a partition that a request names twice is answered twice;
- a follower that is refused has no session, and a fetch that waited returns nothing of a topic whose READ was
  revoked meanwhile;
- a follower's waiting request is answered when its next one arrives, and a follower's session reads only
  partitions with changes.

Versions:
- 4: transactions: `isolation_level`, `last_stable_offset`, aborted transactions (KIP-98)
- 5: `log_start_offset` (KIP-107)
- 6: the error KAFKA_STORAGE_ERROR (KIP-112)
- 7: fetch sessions (KIP-227)
- 8: a throttled client pauses by itself (KIP-219)
- 9: `current_leader_epoch` (KIP-320)
- 10: batches compressed with zstd (KIP-110)
- 11: `rack_id` and `preferred_read_replica` (KIP-392)
- 12: flexible encoding (KIP-482); `cluster_id`, `last_fetched_epoch`, `diverging_epoch` and `current_leader`
  (KIP-595); `snapshot_id` (KIP-630)
- 13: topic ids replace names (KIP-516)
- 14: the error OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
- 15: `replica_state` with the follower's broker epoch replaces `replica_id` (KIP-903)
- 16: `node_endpoints` of new leaders (KIP-951)
- 17: `replica_directory_id` (KIP-853)
- 18: `high_watermark` as the follower knows it (KIP-1166)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.broker.partitions.fetch_target import FetchTarget
from penstock.broker.reading.consumer_fetch import ConsumerFetch, Fetched, by_topic, refusal
from penstock.broker.reading.fetch_session import (
    TOPIC_IDS_SINCE_VERSION,
    SessionError,
    replica_id_of,
    targets_of,
)
from penstock.broker.reading.follower_fetch import FollowerFetch
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchRequest, FetchResponse
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.broker.reading.host import ReadingHost
    from penstock.protocol.codec import Message


async def handle_as_controller(quorum: Quorum, request: FetchRequest, context: RequestContext) -> Message:
    """Answer a fetch of the metadata log, the only log on a controller's listener."""
    if not context.permissions.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return _refuse_all(request, context, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await quorum.handle(request, context)


def _refuse_all(request: FetchRequest, context: RequestContext, code: ErrorCode) -> FetchResponse:
    """Refuse a request as a whole, and each of its partitions in versions that name topics.

    Before version 7, there is no other place for the error.
    """
    response = FetchResponse(error_code=code)
    if context.api_version < TOPIC_IDS_SINCE_VERSION:
        response.responses = [
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic,
                partitions=[refusal(FetchTarget(topic.topic, wanted), code) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    return response


def handle(host: ReadingHost, request: FetchRequest, context: RequestContext) -> Answer[Fetched]:
    is_follower = replica_id_of(request) >= 0
    if is_follower:
        if not context.permissions.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            return Answer.of(_refuse_follower(request, context))
        host.fetch_sessions.answer_waiting(request.session_id)
    try:
        plan = host.fetch_sessions.plan(request, context.api_version)
    except SessionError as error:
        return Answer.of(FetchResponse(error_code=error.code))
    fetch = (FollowerFetch if is_follower else ConsumerFetch)(host, request, context, plan)
    results, missing_bytes = fetch.read()
    if missing_bytes <= 0 or request.max_wait_ms <= 0 or plan.is_empty:
        return fetch.answer_now(results)
    fetch.keep_unsent(results)
    return fetch.wait(missing_bytes, request.max_wait_ms)


def _is_from_follower(request: FetchRequest, context: RequestContext) -> bool:
    """Whether a broker fetches. A client that poses as one is limited like any other."""
    return replica_id_of(request) >= 0 and context.permissions.allows(
        Operation.CLUSTER_ACTION,
        ResourceType.CLUSTER,
        CLUSTER_NAME,
        logs_denial=False,
        logs_permission=False,
    )


def _refuse_follower(request: FetchRequest, context: RequestContext) -> FetchResponse:
    """Refuse a client that poses as a broker, without a trace in the sessions or in the replication."""
    by_topic_id = context.api_version >= TOPIC_IDS_SINCE_VERSION
    targets = targets_of(request, by_topic_id, {})
    refused = [(target, refusal(target, ErrorCode.TOPIC_AUTHORIZATION_FAILED)) for target in targets]
    return FetchResponse(responses=by_topic(refused, by_topic_id))


API = (
    Api(FetchRequest, is_exempt=_is_from_follower)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node.quorum, handle_as_controller)
    .needs(
        (Operation.READ, ResourceType.TOPIC, "for consumers"),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "for followers, and on controllers"),
    )
)
