"""Consumer groups: their committed offsets and members, and membership for other purposes than consuming.

Only requests to group coordinators belong here.
"""
