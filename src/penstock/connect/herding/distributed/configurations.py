"""The configurations as the herder knows them, and its writes to the config topic as the group's leader."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.connect.errors import ConnectError
from penstock.connect.group.assignment import Configured
from penstock.connect.herding.stages import Stages
from penstock.connect.stores.configs.image import ClusterConfig
from penstock.connect.stores.configs.store import ConfigStore
from penstock.connect.stores.writers import PrivilegedWriteError

log = logging.getLogger(__name__)


class Configurations:
    """The herder's view of the config topic.

    `known` changes only when the herder's thread says so; the store below it is always up to date. The
    methods belong to the herder's thread; `known`, `refresh` and `configured` may be used in any.

    Args:
        timeout_s: the time for reading the topic to its end, ``worker.sync.timeout.ms``.
    """

    def __init__(self, store: ConfigStore, stages: Stages, timeout_s: float) -> None:
        self.store = store
        self.known = ClusterConfig()
        self.is_fenced = False
        """Whether another leader has claimed the topic, or a write failed: `claim` must precede the next."""
        self._stages = stages
        self._timeout_s = timeout_s

    def configured(self) -> Configured:
        """Return the connectors and tasks as of the last record that was read, for the group."""
        latest = self.store.snapshot()
        return Configured(latest.offset, {name: latest.tasks(name) for name in latest.connector_configs})

    def update(self) -> None:
        """Take over what the store has read."""
        self.known = self.store.snapshot()

    def refresh(self) -> bool:
        """Read the topic to its end; return False if that takes too long."""
        with self._stages.stage("reading to the end of the config topic"):
            try:
                self.store.refresh(self._timeout_s)
            except (TimeoutError, ConnectError) as error:
                log.warning("the config topic was not read to its end in time error=%s", error)
                return False
            self.update()
            return True

    def require_refresh(self, purpose: str) -> None:
        """Read the topic to its end. Raises ConnectError if that takes too long."""
        if not self.refresh():
            raise ConnectError(f"Failed to read to end of config topic before {purpose}")

    def write(self, description: str, write: Callable[[], None]) -> None:
        """Write as the leader. Raises ConnectError; after a lost transaction, `is_fenced` is set."""
        with self._stages.stage(description):
            try:
                write()
            except PrivilegedWriteError as error:
                log.warning("a write to the config topic failed, as another leader may exist error=%s", error)
                self.is_fenced = True
                raise ConnectError(
                    "Failed to write to config topic; this may be due to a transient error and the request"
                    " can be safely retried"
                ) from error

    def claim(self) -> None:
        """Claim the topic as the leader, so that former leaders can no longer write."""
        with self._stages.stage("claiming write privileges for the config topic"):
            try:
                self.store.claim_write_privileges()
            except ConnectError as error:
                self.is_fenced = True
                log.warning("write privileges for the config topic cannot be claimed error=%s", error)
            else:
                self.is_fenced = False
