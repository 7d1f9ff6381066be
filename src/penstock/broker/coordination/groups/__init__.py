"""The runtime of the group coordinators: a partition of `__consumer_offsets` with its groups and offsets.

Code enters this room if only groups need it. What groups and transactions share is one level up.
"""
