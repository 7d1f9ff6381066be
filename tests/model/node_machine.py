"""The state machine: clients of every kind against one node; `broker_model` judges each response.

Clients act one at a time, so that every offset can be predicted; `history_checker` judges what concurrency
does to histories. A fault strikes between a request and its response: the node is killed or the connection
cut, and the client repeats the request as real clients do.
"""

import sys
import time

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from machine_base import COMPACTED, LAYOUTS, REST_S
from machine_consumers import ConsumerRules
from machine_producers import ProducerRules


class NodeMachine(ConsumerRules, ProducerRules):
    """The whole machine. Subclasses set the node and a client; each example uses its own topics."""

    @initialize(
        faults=st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2]),
        seed=st.integers(0, 1 << 16),
        versions=st.tuples(*[st.sampled_from([2, 1])] * 3),
        compacted=st.booleans(),
        layout=st.sampled_from(LAYOUTS),
        rests=st.sampled_from([False, False, True]),
    )
    def begin(
        self,
        faults: int,
        seed: int,
        versions: tuple[int, ...],
        compacted: bool,
        layout: dict[str, str],
        rests: bool,
    ) -> None:
        self.faults_left = min(faults, self.faults_max)
        self.random.seed(seed)
        for producer, version in zip(self.producers[2:], versions, strict=True):
            producer.version = version
        self.configs = {f"{self.name}-a": layout, f"{self.name}-b": COMPACTED if compacted else layout}
        self.make_topic(f"{self.name}-a", 2)
        self.make_topic(f"{self.name}-b", 1)
        self.rests_left = int(compacted and rests)
        for producer in self.producers:
            self.start_producer(producer)

    def teardown(self) -> None:
        self.client.fault = None
        self.send_away()
        try:
            if self.topics and sys.exc_info()[0] is None:
                if self.may_rest():
                    self.let_the_cleaner_work()
                self.check_everything()
        finally:
            for topic in self.topics:
                self.client.delete_topic(topic)

    @precondition(lambda self: self.faults_left > 0)
    @rule(killed=st.booleans())
    def restart(self, killed: bool) -> None:
        self.faults_left -= 1
        self.client.close()
        if killed:
            self.node.kill()
        else:
            self.node.stop()
        self.restarted()
        self.check_everything()

    def may_rest(self) -> bool:
        return self.rests_left > 0 and self.model.partitions[f"{self.name}-b", 0].end > 4

    @precondition(lambda self: self.may_rest())
    @rule()
    def let_the_cleaner_work(self) -> None:
        """Let the log be compacted: a reader still gets the last value of every key, from any offset on."""
        self.produce_plain(
            list(self.model.partitions).index((f"{self.name}-b", 0)), 1, 0, 0
        )  # rolls a segment
        self.rests_left -= 1
        time.sleep(REST_S)
        for partition, log in self.model.partitions.items():
            for offset in {log.log_start_offset, log.end // 3, log.end // 2}:
                self.check_read(partition, offset, committed=True, max_bytes=300)
                self.check_read(partition, offset, committed=False, max_bytes=1 << 20)

    @precondition(lambda self: self.deletions_left > 0)
    @rule()
    def recreate_topic(self) -> None:
        """Delete a topic and create it again: no old record reappears and no open transaction blocks it."""
        self.deletions_left -= 1
        topic = f"{self.name}-a"
        self.send_away(lambda waiting: waiting.partition[0] == topic)
        self.client.delete_topic(topic)
        del self.topics[topic]
        self.make_topic(topic, 2)
        for producer in self.producers:
            for partition in [p for p in producer.sequences if p[0] == topic]:
                del producer.sequences[partition], producer.sent[partition]
        for group in self.model.groups.values():
            for offsets in [group.committed, *group.pending.values()]:
                for partition in [p for p in offsets if p[0] == topic]:
                    del offsets[partition]

    # -- at the end ----------------------------------------------------------------------------------

    def check_everything(self) -> None:
        for partition in self.model.partitions:
            for committed in (False, True):
                self.check_offsets(partition, committed=committed)
                self.check_read(
                    partition,
                    self.model.partitions[partition].log_start_offset,
                    committed=committed,
                    max_bytes=1 << 20,
                )
            for group in self.model.groups:
                self.check_offset(group, partition, require_stable=True)
