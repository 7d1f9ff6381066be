"""Failures of one log directory: the node keeps running and serves its other directories."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock.testing.simulator.layout import directory_id_of, write_properties

if TYPE_CHECKING:
    from penstock.testing.simulator.faults import Faults
    from penstock.testing.simulator.nodes import VirtualNode

REPLACED: Final = 100
"""Added to the number of a replaced disk, so that its directory id is new."""

log = logging.getLogger(__name__)


class DirectoryFaults:
    """Directory failures, at most one in the cluster at a time; the directory loses what was not synced.

    It is replaced some time later, or only after the cluster has settled without it (`repair`).
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self.survived = 0
        """How many nodes kept running until the repair."""

    def strike(self, node: VirtualNode, duration_s: float) -> None:
        directories = node.config.log_dirs
        others = [found for found in directories if found != node.config.metadata_log_dir]
        if not (others and node.is_up and not node.is_paused and self._faults.is_safe()):
            return
        node.files.dies_in = -1
        directory = self._faults.rng.choice(others)
        log.info("node loses a directory node=%d directory=%s", node.node_id, directory.name)
        node.files.fail(directory)
        if self._faults.rng.random() < 0.6:
            self._faults.later(1.0 + duration_s, lambda: self.repair(node))

    def repair(self, node: VirtualNode) -> None:
        """Kill the node, replace the disk, and start the node."""
        directory = node.files.failed
        if directory is None:
            return
        if node.is_up and not node.is_paused:
            self.survived += 1
        node.kill()
        is_empty = self._faults.rng.random() < 0.5
        log.info(
            "node gets a directory back node=%d directory=%s empty=%s", node.node_id, directory.name, is_empty
        )
        node.files.replace(empty=is_empty)
        if is_empty:
            write_properties(node, directory, directory_id_of(node.node_id, REPLACED + node.incarnation))
        self._faults.start(node)
