"""Random requests and times: the image stays valid, and all nodes have the same one."""

import random
from contextlib import suppress

import pytest
from controller_bench import SESSION_MS, ControllerBench, replayed
from controller_requests import RequestMaker
from invariants import check_image

from long_run import repetitions
from penstock.metadata.controller.elections import balance_leaders, elect_unclean_leaders
from penstock.metadata.controller.heartbeats import BrokerHeartbeats
from penstock.metadata.controller.registration import fence_one_stale_broker
from penstock.metadata.controller.state import Refusal
from penstock.metadata.image import MetadataImage
from penstock.protocol.messages import FeatureLevelRecord, Message

SEEDS = repetitions("PENSTOCK_CONTROLLER_SEEDS", gate=6, long=100)
STEPS = 400


@pytest.mark.longer
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_requests(seed: int) -> None:
    rng = random.Random(seed)
    bench = ControllerBench(brokers=(), elr=rng.random() < 0.5, rng=rng)
    maker = RequestMaker(bench, rng)
    for _ in range(STEPS):
        bench.now_ms += rng.choice((1, 10, 100, SESSION_MS // 3))
        chance = rng.random()
        if chance < 0.05:
            while bench.do(fence_one_stale_broker, bench.now_ms):
                check_image(bench.image, elr=bench.state.elr_enabled)
        elif chance < 0.07:
            bench.do(balance_leaders)
        elif chance < 0.09:
            bench.do(elect_unclean_leaders)
        elif chance < 0.1:
            bench.state.heartbeats = anew = BrokerHeartbeats(SESSION_MS)
            anew.take_over(bench.image.brokers.values(), bench.image.offset, bench.now_ms)
        else:
            _, _, decide = maker.make()
            with suppress(Refusal):
                bench.do(decide)
        check_image(bench.image, elr=bench.state.elr_enabled)
    features = [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in bench.image.features.items()
    ]
    assert content(replayed([*features, *bench.records])) == content(bench.image)
    assert content(replayed([*bench.image.records()])) == content(bench.image), "the snapshot is the image"


def content(image: MetadataImage) -> list[Message]:
    return sorted(image.records(), key=repr)
