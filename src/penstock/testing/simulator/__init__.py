"""A whole cluster of real nodes in one thread, from one seed: time, network and disks are made up.

`python -m penstock.testing.simulator --seeds A-B` runs seeds; a failing one is printed and replays exactly.
"""
