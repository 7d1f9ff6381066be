"""The two ways in which `penstock consume` reads: as a member of a group, and partitions without a group.

`group` uses librdkafka. `partitions` uses this package's own client: librdkafka needs the id of a group even
for a reader without one, and asks for the coordinator of that group, for which brokers create
`__consumer_offsets`. Both yield records as `limits` allows.
"""
