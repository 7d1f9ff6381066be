"""The application whose store is queried: the latest value of each key."""

from __future__ import annotations

from penstock.streams import App, long, string
from views.schedule import APPLICATION, INPUT, STORE


def build() -> App:
    app = App(APPLICATION, key=string, value=long)
    app.stream(INPUT).group_by_key().reduce(_latest, store=STORE)
    return app


def _latest(kept: int, value: int) -> int:
    return max(kept, value)
