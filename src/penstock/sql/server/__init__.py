"""ksqlDB's REST API on the engine: paths, content types, statuses, error bodies, and rows as they come.

- `asked`: what bodies of requests say; `media`: content types;
- `row_json`: rows and types of columns as JSON has them; `row_formats`: the three forms of a stream of rows;
- `reading`: rows as they come; `streaming`: to one client, however slowly it reads;
- `inserting`: rows from a client, and acknowledgements;
- `access`: who may ask;
- `application`: the ASGI application; `server`: a process or thread that serves it.
"""
