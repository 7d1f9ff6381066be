"""What to do about records that should be read and are not there any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.client.errors import ClientError


class DataLoss(ClientError):
    """Offsets that have to be read are not there any more, and the reader was told to fail then."""


@dataclass(frozen=True, slots=True)
class LossRule:
    """Fail, or tell and go on with what is there. ``advice`` says in an error what can be done."""

    fail: bool
    warn: Callable[[str], None]
    advice: str

    def report(self, what: str) -> None:
        if self.fail:
            raise DataLoss(
                f"{what}. Records that were still to be read were removed by retention, by deleting records "
                f"or by deleting the topic. To go on with the records that are left, {self.advice}"
            )
        self.warn(what)
