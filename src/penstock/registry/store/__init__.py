"""The registry's state on Kafka: the topic `_schemas` and the group whose leader writes to it.

- `topic` creates the topic, or checks that an existing one is suitable.
- `image` follows it and keeps a `subjects.Registry` of its records.
- `writer` appends records and fences earlier writers.
- `election` determines the leader with Confluent's group protocol, so that their instances and ours can share
  one group.
- `store` combines them: it reads from the image and writes if this instance leads.

Code that reads or writes the topic belongs here; the meaning of the records belongs in `subjects`.
"""
