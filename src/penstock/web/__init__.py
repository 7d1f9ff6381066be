"""How Penstock serves HTTP: whoever has an application for starlette's kind of server runs it with this.

- `server`: uvicorn, on a socket that listens already; `http1`, `http2`: the protocols on its sockets; `tls`;
- `authentication`: names and passwords; `accept`, `answers`: what is asked for, and found as responses.
"""
