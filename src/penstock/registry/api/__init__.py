"""Confluent's REST API over the store: paths, parameters, content types, statuses and error bodies.

- `contexts`: `/contexts/{context}/…` is the same path with the context written into subjects and prefixes;
- `resources`: the table of all endpoints and what each asks of `subjects.Registry`;
- `media`: which of the content types a request has and an answer gets;
- `forwarding`: a write goes to the leader, by HTTP;
- `application`: the ASGI application; `server`: a process or thread that serves it.
"""
