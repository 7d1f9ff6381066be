"""Replication of partitions: what a leader knows of its followers, and what a follower does with its leader.

The decisions are pure: `follower_progress`, `leadership` and `nearest_replica` for the leader, `truncation`,
`fetched_batches` and `leader_session` for the follower, `throttle` for both. Time comes in as a parameter.
`replicated_partition` joins them to a replica. On the event loop `follower_fetch` answers followers, and
`alter_partition`, `fetcher` and `replication` speak to other nodes.
"""
