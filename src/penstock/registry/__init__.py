"""Schemas, kept in a topic and checked for compatibility: Confluent's registry as its clients see it.

The map, from the ground:

- `formats/`: what an Avro, JSON or Protobuf schema says: parsing, one printed form, references,
  compatibility. No I/O.
- `subjects/`: a pure state machine over the records of `_schemas`: each operation gives records and an
  answer, `replay` takes records in; subjects, versions, ids, modes, configurations, soft deletes.
- `store/`: that log, read and written by `penstock.client`; one node of the group writes.
- `api/`: the REST resources and error codes, on starlette; a write at another node than the leader is
  forwarded.

Data contracts (metadata, rules) are kept beside a schema's text and never looked into by `formats`.
"""
