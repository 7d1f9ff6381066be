"""Random histories of a quorum; every failure names its seed, and `PENSTOCK_SEED` runs that one alone."""

import os
import random

import pytest
from simulated_quorum import Faults, SimulatedQuorum

from long_run import repetitions
from penstock.consensus.voters import ReplicaKey

FOUND = (19772,)
"""Seeds that failed once.

19772: an observer read the leader's id from its disk, and of the two members it could ask only the
leader answered.
"""
COUNT = repetitions("PENSTOCK_QUORUM_SEEDS", gate=50, long=1_000)
SEEDS = [int(os.environ["PENSTOCK_SEED"])] if "PENSTOCK_SEED" in os.environ else [*range(COUNT), *FOUND]


def disturb(quorum: SimulatedQuorum, rng: random.Random, *, change_voters: bool) -> None:
    """Apply a random fault to machines or networks."""
    ids = sorted(quorum.addresses)
    one = rng.choice(ids)
    match rng.randrange(11):
        case 0 | 1:
            if one in quorum.members:
                quorum.crash(one)
        case 2 | 3 | 4:
            if quorum.down:
                quorum.start(rng.choice(sorted(quorum.down)))
        case 5:
            quorum.cut.add((one, rng.choice(ids)))
        case 6:
            quorum.cut |= {pair for other in ids for pair in ((one, other), (other, one))}
        case 7:
            quorum.cut.clear()
        case 8:
            quorum.faults = Faults(
                lost=rng.choice((0.0, 0.05, 0.3)),
                doubled=rng.choice((0.0, 0.1)),
                delay_ms=rng.choice(((1, 5), (1, 100), (50, 400))),
                disk_ms=rng.choice(((0, 2), (0, 50), (100, 300))),
            )
        case 9:
            member = rng.choice(sorted(quorum.members)) if quorum.members else None
            if member is not None:
                high_watermark = quorum.members[member].raft.high_watermark or 0
                quorum.members[member].log.take_snapshot(high_watermark, trim=rng.random() < 0.7)
        case 10:
            if change_voters:
                change(quorum, rng)


def change(quorum: SimulatedQuorum, rng: random.Random) -> None:
    leader = quorum.leader
    if leader is None:
        return
    voters = leader.raft.voters
    others = [i for i in quorum.members if i not in voters.ids]
    if others and rng.random() < 0.6:
        quorum.add_voter(rng.choice(others))
    elif len(voters) > 1:
        key = rng.choice(voters.keys)
        quorum.remove_voter(ReplicaKey(*key))


def live_through(seed: int, voters: int, observers: int, *, dynamic: bool) -> SimulatedQuorum:
    rng = random.Random(seed * 7919 + voters)
    quorum = SimulatedQuorum(seed, voters, observers, dynamic=dynamic)
    for _ in range(40):
        for _ in range(rng.randrange(6)):
            member = rng.choice(sorted(quorum.members)) if quorum.members else None
            if member is not None:
                quorum.propose(quorum.members[member])
            quorum.run(rng.randrange(1, 150))
        disturb(quorum, rng, change_voters=dynamic)
        quorum.run(rng.randrange(1, 1500))
    quorum.faults = Faults()
    quorum.cut.clear()
    for member_id in sorted(quorum.down):
        quorum.start(member_id)
    return quorum


@pytest.mark.longer
@pytest.mark.parametrize("seed", SEEDS)
def test_a_quorum_lives_through(seed: int) -> None:
    print(f"PENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    quorum = live_through(seed, rng.randint(1, 5), rng.randrange(3), dynamic=rng.random() < 0.7)
    quorum.run_until(quorum.is_settled)
    leader = quorum.leader
    assert leader is not None
    before = leader.log.end_offset
    quorum.propose(leader)
    quorum.run_until(lambda: all(m.log.end_offset > before for m in quorum.members.values()))
    quorum.run_until(quorum.is_settled)
