"""Schemas, kept in a topic and checked for compatibility: Confluent's registry as its clients see it.

The map, from the ground:

- `formats/`: what an Avro, JSON or Protobuf schema says: parsing, one printed form, references,
  compatibility. No I/O.
- `subjects` (not here yet): a pure state machine over the records of `_schemas`: `decide(request) →
  records, response` and `replay(record)`, for subjects, versions, ids, modes, configurations and soft
  deletes.
- `store` (not here yet): that log, read and written by `penstock.client`; one node writes, the others
  forward.
- `api` (not here yet): the REST resources and error codes, on starlette.

Data contracts (metadata, rules) are kept beside a schema's text and never looked into by `formats`.
"""
