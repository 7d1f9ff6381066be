"""The registry's state machine: what is registered, and what each request does to it. No I/O, no clock.

All state is the image of the topic `_schemas`, whose records `Registry.replay` takes in the order of their
offsets. A write decides on the image as it is and returns a `Decision`: records, and the answer. Whoever is
leader

1. has replayed the topic to its end,
2. calls the operation,
3. writes the records in their order (there may be none) and waits until they are replayed here, and
4. gives the answer; then the next operation may decide.

So ids are decided here: the greatest of the context that was ever seen, and one. Nodes that don't lead answer
all reads from their own image, and a registration too where `registered` knows the answer.

Requests and answers are JSON as the REST API has it (dicts in Confluent's order of fields); versions come as
text ("latest", "-1", "7"), subjects as they stand in the path (":.context:subject" where a context is meant,
None for the top level). What is refused raises `RegistryError`, with HTTP status, error code and message.

The modules, from the ground: records are made of `names`, `contracts` and `configs`; `records` are their
bytes; `image` replays them; `schemas` parses with references; `state` is the image with its settings. On it
stand the operations: `searching`, `completing`, `compatibility`, `registering`, `deleting`, `configuring`,
`listing`; `answers` prints, and `registry` has them all by name.
"""

from __future__ import annotations

from penstock.registry.subjects.decisions import Decision
from penstock.registry.subjects.errors import RegistryError
from penstock.registry.subjects.records import Record
from penstock.registry.subjects.registry import Registry
from penstock.registry.subjects.settings import Settings

__all__ = ["Decision", "Record", "Registry", "RegistryError", "Settings"]
