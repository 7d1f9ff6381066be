"""Simulate a whole cluster in one thread, from one seed: nodes are real; time, network and disks are not.

`python -m penstock.testing.simulator --seeds A-B` runs seeds; it prints a failing seed, which replays
exactly. The package holds the simulated environment, the faults and the checks; its clients are in `clients`.
"""
