"""The registry's state machine: it decides what each request changes, without any I/O or clock.

All state is the image of the topic `_schemas`, whose records `Registry.replay` applies in the order of their
offsets. A write decides on the current image and returns a `Decision`: records and the answer. The leader

1. replays the topic to its end,
2. calls the operation,
3. writes the records in their order (there may be none) and waits until they are replayed here, and
4. returns the answer; then the next operation may decide.

So the leader assigns ids here: one more than the greatest id ever seen in the context. Nodes that don't lead
answer all reads from their own image, and also registrations that `registered` can answer.

Requests and answers are the JSON of the REST API (dicts with Confluent's order of fields). Versions are texts
("latest", "-1", "7"). Subjects are as in the path: ":.context:subject" for a subject in a context, None for
the top level. A refused request raises `RequestRefused` with HTTP status, error code and message.

The modules, from the lowest layer up: records are made of `names`, `contracts` and `configs`; `records`
encodes and decodes them; `image` replays them; `schemas` parses schemas with their references; `state` is the
image with its settings. The operations build on it: `searching`, `completing`, `compatibility`,
`registering`, `deleting`, `configuring`, `listing`. `answers` formats their results, and `registry` offers
all of them by name.
"""

from __future__ import annotations

from penstock.registry.subjects.decisions import Decision
from penstock.registry.subjects.errors import RequestRefused
from penstock.registry.subjects.records import Record
from penstock.registry.subjects.registry import Registry
from penstock.registry.subjects.settings import Settings

__all__ = ["Decision", "Record", "Registry", "RequestRefused", "Settings"]
