"""ksqlDB's REST API, served from an engine: paths, content types, statuses, error bodies and streams of rows.

Everything about HTTP and its JSON belongs here; the meaning of statements belongs in `penstock.sql.engine`.

- `asked`: the bodies of requests; `media`: content types;
- `row_json`: rows and column types as JSON; `row_formats`: the three formats of a stream of rows;
- `reading`: rows as they arrive; `streaming`: their delivery to one client, however slowly it reads;
- `inserting`: rows from a client, and their acknowledgements;
- `access`: authentication and cross-origin access;
- `application`: the ASGI application; `server`: the process or thread that serves it.
"""
