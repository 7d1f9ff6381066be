"""The HTTP server of Penstock's web applications, which are written for Starlette.

- `server`: uvicorn, on a socket that listens already; `http1`, `http2`: the protocols on its sockets; `tls`;
- `guard`: who sends a request; `certificates`: the one that a client has shown;
- `accept`, `answers`: content negotiation and JSON responses.

Code for one particular application belongs to that application.
"""
