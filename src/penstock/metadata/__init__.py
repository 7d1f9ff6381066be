"""The cluster's metadata: its state, the rules of configs, the controller's decisions, and snapshots.

Code in this package does no I/O. Brokers and controllers call it; it imports neither of them.
"""
