"""Replicate partitions: the leader's view of its followers, and the follower's copy of its leader's log.

The decisions are pure: `follower_progress`, `leadership` and `nearest_replica` for the leader, `truncation`,
`fetched_batches` and `leader_session` for the follower, `throttle` for both. They take the time as a
parameter. `replicated_partition` connects them to a replica. On the event loop, `follower_fetch` answers
followers, while `alter_partition`, `fetcher` and `replication` send requests to other nodes.

Code enters this package if only partitions with several replicas need it.
"""
