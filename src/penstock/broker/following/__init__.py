"""The follower's side of replication: fetchers of leaders, truncation, and the state of the other brokers.

Code enters this room if it keeps this node's partitions in step with their leaders, or sends a leader's
proposals for in-sync replicas to the controller.
"""
