"""The registry's state on Kafka: the topic `_schemas` and the group whose leader writes to it.

- `topic` makes the topic, or looks whether one that is there will do;
- `image` follows it and keeps a `subjects.Registry` of what it says;
- `writer` appends, and fences whoever wrote before;
- `election` says who leads: by Confluent's group protocol, so that their instances and ours may share one;
- `store` puts them together: reads from the image, writes by the leader.
"""
