"""The rule for records that should be read but no longer exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.client.errors import ClientError


class DataLoss(ClientError):
    """Offsets to be read no longer exist, and the reader is configured to fail in that case."""


@dataclass(frozen=True, slots=True)
class LossRule:
    """Either fail on lost records, or warn and continue with the rest.

    ``advice`` is the part of the error that says how to continue.
    """

    fail: bool
    warn: Callable[[str], None]
    advice: str

    def report(self, what: str) -> None:
        if self.fail:
            raise DataLoss(
                f"{what}. Records that were still to be read were removed by retention, by deleting records "
                f"or by deleting the topic. To continue with the remaining records, {self.advice}"
            )
        self.warn(what)
