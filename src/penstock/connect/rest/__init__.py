"""Serves Kafka Connect's REST API over a herder: paths, parameters, bodies, statuses and headers.

Only code that handles HTTP belongs here; decisions about connectors belong in `herding`.

- `routing` finds the endpoint of a request; `asked` parses its parameters and body.
- `connectors`, `internal`, `plugins`, `loggers` and `worker` have the endpoints.
- `waiting` waits for the herder, or forwards a request to the worker that can answer it.
- `settings`, `access`, `cors` and `response_headers` hold what a worker's properties say about the API.
- `application` is the ASGI application; `server` serves it on the worker's listeners.
"""

from penstock.connect.rest.server import RestServer
from penstock.connect.rest.settings import Listener, RestSettings

__all__ = ["Listener", "RestServer", "RestSettings"]
