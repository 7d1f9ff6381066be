"""Requests to HTTP servers and their answers, over connections that stay open.

urllib3 does the work: it is small, knows threads and pools, and needs no other packages. `client` imports it
when the first client is made, so that a worker without the extra still lists and validates the connectors.
"""
