"""The transaction coordinator: it keeps the state of transactional ids, and ends their transactions.

One :class:`~penstock.coordinators.transaction.coordinator.TransactionCoordinator` holds the state of one
partition of `__transaction_state`. It does no I/O and reads no clock, and neither may any other code in this
package:

- ``handle_…(…, now_ms) -> (records, response)`` decides. The records must be in the log before the response
  may be sent. A decision that needs a new producer id says so, and the caller repeats the call with one.
- ``replay(record, …)`` applies a record, both live after its append and at recovery. Everything that survives
  a restart changes here only.
- ``take_markers()`` returns the partitions that need a marker of how a transaction ended;
  ``on_markers_written()`` confirms that they have it.
- ``next_deadline_ms`` and ``on_timeout(now_ms)`` are the timers, as data.

The module :mod:`~penstock.coordinators.transaction.states` explains the rules.
"""
