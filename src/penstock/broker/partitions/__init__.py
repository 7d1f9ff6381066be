"""Replicas of partitions on this node: appends, the leader's state, and the requests that wait for them.

Code enters this room if it belongs to one partition as its leader or as any replica has it. Fetches are
read in `reading`, and a follower's own fetches are in `following`.
"""
