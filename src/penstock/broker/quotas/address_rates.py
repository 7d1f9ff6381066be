"""Follow the quotas of IP addresses, and resolve those that name a host."""

from __future__ import annotations

import ipaddress
import logging
import socket
from asyncio import Future
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from penstock.broker.quotas.limits import connection_rates

if TYPE_CHECKING:
    from penstock.broker.quotas.connections import ConnectionQuotas
    from penstock.metadata.image.client_quotas import ClientQuotasImage

log = logging.getLogger(__name__)

Rates: TypeAlias = Mapping[str | None, float]


class AddressRates:
    """A `QuorumWatcher` that keeps the rates of addresses those of the image.

    A host name is resolved once, as in Kafka, and in a worker (``run_in_worker``): a name server may be slow.
    """

    def __init__(
        self,
        image: Callable[[], ClientQuotasImage],
        quotas: Iterable[ConnectionQuotas],
        run_in_worker: Callable[[Callable[[Rates], Rates], Rates], Future[Rates]],
    ) -> None:
        self._image = image
        self._quotas = tuple(quotas)
        self._run_in_worker = run_in_worker
        self._version = 0

    def committed(self, end_offset: int) -> None:
        """Take over the rates of the image, if they have changed."""
        image = self._image()
        version = image.version
        if version == self._version:
            return
        self._version = version
        found = connection_rates(image)
        rates = {name if name is None else address_of(name): rate for name, rate in found.items()}
        hosts: Rates = {name: rate for name, rate in rates.items() if name and not _is_address(name)}
        self._apply(rates)
        if hosts:

            def apply_resolved(resolved: Future[Rates]) -> None:
                if self._version == version and not resolved.cancelled():
                    self._apply({**resolved.result(), **rates})

            self._run_in_worker(resolved_rates, hosts).add_done_callback(apply_resolved)

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Do nothing: the rates stay in force."""

    def failed(self, reason: str) -> None:
        """Do nothing: committed rates stay in force."""

    def _apply(self, rates: Rates) -> None:
        for quotas in self._quotas:
            quotas.limit_addresses(rates)


def address_of(text: str) -> str:
    """The address as the listeners write it, in the shortest form; another text as it is."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def resolved_rates(hosts: Rates) -> Rates:
    """The rates by the addresses of the hosts. Blocks."""
    rates: dict[str | None, float] = {}
    for host, rate in hosts.items():
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            log.warning("the quota of an unknown host limits nobody host=%s error=%s", host, error)
            continue
        rates.update({address_of(str(address[0])): rate for *_, address in found})
    return rates


def _is_address(text: str) -> bool:
    return ":" in text or text.replace(".", "").isdigit()
