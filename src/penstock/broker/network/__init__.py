"""Connections: sockets, frames, the turns of the event loop, and the dispatch of requests to handlers.

Code enters this room if it moves bytes between sockets and handlers or limits what one client may use. It
knows no topic, no partition and no single API: `node` passes it the table of handlers.
"""
