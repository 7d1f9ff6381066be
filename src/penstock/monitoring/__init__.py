"""Figures of the process itself, and the HTTP server for metrics and probes.

Code enters this room if it serves every long-running process of Penstock. The metrics of a node, a query or a
server lie beside the code that counts.
"""
