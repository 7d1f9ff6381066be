"""Keep schemas in a topic and check their compatibility, as Confluent's schema registry does for its clients.

The sub-packages, from the lowest layer up:

- `formats/` reads Avro, JSON and Protobuf schemas: parsing, one printed form, references, compatibility. It
  does no I/O.
- `subjects/` is a pure state machine over the records of `_schemas`. Each operation returns records and an
  answer, and `replay` applies records. It covers subjects, versions, ids, modes, configurations and soft
  deletes.
- `store/` reads and writes that log through `penstock.client`; one node of the group writes.
- `api/` serves the REST resources and error codes with starlette. A node that does not lead forwards writes
  to the leader.
- `client/` is the client that pipelines use to ask a registry, ours or Confluent's.

Data contracts (metadata, rules) are stored beside a schema's text; `formats` never reads them.
"""
