"""Interactive queries (KIP-67): an application's stores, followed through their logs and queried live.

    with Views(app.topology(), bootstrap_servers="localhost:9092") as views:
        views.store("counts").get("ann")

This package holds the replicas of stores, the queries on them, and the nodes that serve queries over HTTP. It
only reads: running applications belongs in `penstock.spark`.
"""

from penstock.extras import needs_extra

with needs_extra("arrow", "penstock.views"):
    from penstock.views.errors import (
        InvalidQuery,
        KeyNotFound,
        NoHolder,
        NotPresent,
        PositionNotReached,
        StoreNotQueryable,
        StoreRestoring,
        UnknownStore,
        UnsupportedQuery,
        ViewError,
        ViewsClosed,
    )
    from penstock.views.position import Position
    from penstock.views.queries import Answer
    from penstock.views.stores import (
        Entries,
        Entry,
        KeyValueView,
        SessionView,
        VersionedView,
        View,
        WindowView,
    )
    from penstock.views.views import Views

__all__ = [
    "Answer",
    "Entries",
    "Entry",
    "InvalidQuery",
    "KeyNotFound",
    "KeyValueView",
    "NoHolder",
    "NotPresent",
    "Position",
    "PositionNotReached",
    "SessionView",
    "StoreNotQueryable",
    "StoreRestoring",
    "UnknownStore",
    "UnsupportedQuery",
    "VersionedView",
    "View",
    "ViewError",
    "Views",
    "ViewsClosed",
    "WindowView",
]
