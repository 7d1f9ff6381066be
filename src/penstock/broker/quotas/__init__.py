"""Quotas: which limit applies to a client, what clients use, and for how long they are throttled.

Code enters this room if it decides about a limit. It does no I/O, knows no request, and gets the time from
its caller; `network` measures and mutes.
"""
