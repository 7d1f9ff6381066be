"""The runtime of the transaction coordinators, the markers that end transactions, and producer ids.

Code enters this room if only transactions need it. It may use the groups' room, because a transaction's
offsets are written there.
"""
