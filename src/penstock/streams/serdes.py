"""Serdes by the names that users know: ``from penstock.streams import serdes``, ``serdes.string``.

They are defined in `penstock.topology.serdes`.
"""

from penstock.topology.serdes import (
    Serde,
    Window,
    Windowed,
    double,
    integer,
    json,
    long,
    raw,
    session_windowed,
    string,
    time_windowed,
)

__all__ = [
    "Serde",
    "Window",
    "Windowed",
    "double",
    "integer",
    "json",
    "long",
    "raw",
    "session_windowed",
    "string",
    "time_windowed",
]
