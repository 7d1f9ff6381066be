"""Confluent's REST API over the store: paths, parameters, content types, statuses and error bodies.

Only code that handles HTTP belongs here; decisions about schemas belong in `subjects`.

- `contexts` rewrites `/contexts/{context}/…` to the same path with the context in subjects and prefixes.
- `resources` is the table of all endpoints and of the `subjects.Registry` operation behind each.
- `media` determines the content types of requests and answers.
- `forwarding` sends a write to the leader by HTTP.
- `application` is the ASGI application; `server` is the process or thread that serves it.
"""
