"""A process that runs an exactly-once task until it is killed: counts into a topic from its stored offset."""

import sys
import threading

from running_tasks import OFTEN, Counting, Listener, exactly_once, source_parts

from penstock.client.admin.transactions import fence
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.connect.stores import ConnectorOffsets, OffsetStore, offset_topic
from penstock.connect.tasks import ClientProperties, source_runner


def main(servers: str, topic: str) -> None:
    properties = {"bootstrap.servers": servers}
    config, once = ClientConfig.from_properties(properties), exactly_once(topic)
    with Cluster(config) as cluster:
        fence(cluster, once.transactional_id)  # the store waits for the end of open transactions
    store = OffsetStore(config, offset_topic(f"offsets-{topic}", 1, 1))
    store.start()
    clients = ClientProperties(producer=properties, admin=properties)
    parts = source_parts(Counting(topic, 10**9, batch=3), topic)
    offsets = ConnectorOffsets(topic, store)
    source_runner(parts, clients, offsets, OFTEN, Listener(), exactly_once=once).start()
    threading.Event().wait()


main(sys.argv[1], sys.argv[2])
