"""The reason why the coordinator of a group cannot serve, which librdkafka does not pass on.

While no coordinator is available, librdkafka retries: in a request until its timeout, in a consumer for ever.
It reports neither the brokers' error nor their message, such as the setting that prevents
`__consumer_offsets`. So once librdkafka has been silent for a moment, this module asks the brokers itself.
"""

import time
from concurrent.futures import Future, wait
from typing import Final, TypeVar

from penstock.cli.connection import REQUEST_TIMEOUT_S, CommandConfig, fail, result_of

SILENCE_S: Final = 1.0
"""The brokers are asked once librdkafka has had no result for this long; most calls take a fraction of it."""

REASON_PATIENCE_S: Final = 5.0
"""The time for which a coordinator is awaited although the brokers have a reason why there is none.

No reason is certain to last: in a cluster that is starting, `__consumer_offsets` cannot be created until
enough brokers have registered, which takes a few seconds.
"""

PATIENCE_S: Final = REQUEST_TIMEOUT_S - SILENCE_S
"""The time for which a coordinator is awaited without a reason, such as during an election.

The report then comes before librdkafka's timeout.
"""

_PAUSE_S: Final = 0.25

T = TypeVar("T")


def group_result(future: "Future[T]", bootstrap: str, command_config: CommandConfig, group: str) -> T:
    """Wait for an admin call about a group; an error, or a missing coordinator, ends the command."""
    if wait([future], SILENCE_S).not_done:
        require_coordinator(bootstrap, command_config, group)
    return result_of(future, bootstrap, f"group {group!r}")


def require_coordinator(bootstrap: str, command_config: CommandConfig, group: str) -> None:
    """Wait until the group has a coordinator; end the command with the brokers' reason if it gets none.

    Any other failure is left to librdkafka to report: above all, this package's own client does not
    understand all security settings of `--command-config` that librdkafka does.
    """
    # Imported here, since the client would delay the start of commands that never wait.
    from penstock.cli.open_cluster import client_config
    from penstock.client.connections.cluster import Cluster
    from penstock.client.connections.coordinators import CoordinatorKind, find_coordinator
    from penstock.client.errors import ServerError
    from penstock.errors import PenstockError
    from penstock.protocol.errors import ErrorCode

    def missing(cluster: Cluster) -> ServerError | None:
        try:
            find_coordinator(cluster, CoordinatorKind.GROUP, group)
        except ServerError as error:
            if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return error
            raise
        return None

    began_s = time.monotonic()
    try:
        with Cluster(client_config(bootstrap, command_config)) as cluster:
            while (error := missing(cluster)) is not None:
                patience_s, reason = PATIENCE_S, ""
                if error.detail is not None:
                    patience_s, reason = REASON_PATIENCE_S, f": {error.detail}"
                if time.monotonic() - began_s >= patience_s:
                    fail(f"group {group!r}: the coordinator is not available{reason}")
                time.sleep(_PAUSE_S)
    except PenstockError:
        return
