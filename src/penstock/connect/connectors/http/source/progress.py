"""How far a source has read, as stored offsets keep it.

A sweep is a walk over all pages of an API. Its requests are made with the values that there were at its
beginning (`Sweep.since`), and items that those values cover are skipped. So an API may repeat the items of
the last moment, or list them in any order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connect.connectors.http.source.items import TIMESTAMP, Item, millis_of
from penstock.connect.data.records import Offset
from penstock.connect.errors import ConnectError

_SEEN: Final = "_seen"
_SWEEP: Final = "_sweep"
_VALIDATORS: Final = "_validators"


@dataclass(frozen=True, slots=True)
class Position:
    """The newest item: its values by name, and the marks of all items at its moment."""

    values: Mapping[str, Any] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()

    @property
    def millis(self) -> int | None:
        """The time of the newest item."""
        return millis_of(self.values[TIMESTAMP]) if TIMESTAMP in self.values else None

    def news(self, items: Sequence[Item]) -> list[Item]:
        """Return the items that are not covered by this position.

        With timestamps these are the later ones, and others of the same moment. Without them these are the
        items behind the last one, or all if that is not among them.
        """
        last = self.millis
        if last is None:
            places = [number for number, each in enumerate(items) if each.mark in self.seen]
            return list(items[places[-1] + 1 :] if places else items)
        return [
            each
            for each in items
            if each.millis is None
            or each.millis > last
            or (each.millis == last and each.mark not in self.seen)
        ]

    def after(self, item: Item) -> Position:
        """Return the position after an item."""
        if not item.offset:
            return self
        last = self.millis
        if item.millis is None or last is None or item.millis > last:
            return Position(item.offset, frozenset((item.mark,)))
        if item.millis < last:
            return self
        return Position(item.offset, self.seen | {item.mark})


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep that is not finished: the next page, and the position at its beginning."""

    page: Any
    since: Position


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything that an offset keeps. `validators` are those of conditional requests."""

    position: Position = Position()
    sweep: Sweep | None = None
    validators: Mapping[str, str] = field(default_factory=dict)

    def offset(self) -> Offset:
        """Return the offset to store: the values by name, and the rest as JSON."""
        more: dict[str, str] = {}
        if self.position.seen:
            more[_SEEN] = ",".join(sorted(self.position.seen))
        if self.sweep is not None:
            since = self.sweep.since
            kept = {"page": self.sweep.page, "values": dict(since.values), "seen": sorted(since.seen)}
            more[_SWEEP] = json.dumps(kept)
        if self.validators:
            more[_VALIDATORS] = json.dumps(dict(self.validators))
        return {**self.position.values, **more}

    @classmethod
    def stored(cls, offset: Offset) -> Progress:
        """Return the progress of a stored offset. Raises ConnectError if it is not one of this source."""
        values = {name: value for name, value in offset.items() if name not in (_SEEN, _SWEEP, _VALIDATORS)}
        try:
            seen = frozenset(filter(None, offset.get(_SEEN, "").split(",")))
            sweep = None
            if _SWEEP in offset:
                kept = json.loads(offset[_SWEEP])
                sweep = Sweep(kept["page"], Position(kept["values"], frozenset(kept["seen"])))
            validators = json.loads(offset.get(_VALIDATORS, "{}"))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConnectError(f"the stored offset {offset} cannot be used: {error!r}") from error
        return cls(Position(values, seen), sweep, validators)
