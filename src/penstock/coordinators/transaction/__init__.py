"""The transaction coordinator: what each transactional id is doing, and how its transactions end.

One :class:`~penstock.coordinators.transaction.coordinator.TransactionCoordinator` is the state of one
partition of `__transaction_state`. It does no I/O and reads no clock:

- ``handle_…(…, now_ms) -> (records, response)`` decides. Records are what must be in the log before the
  response may leave. A decision that takes a new producer id says so and is made again with one.
- ``replay(record, …)`` applies a record, live after its append and at recovery alike. Everything that
  survives a restart changes here only.
- ``take_markers()`` tells which partitions have to hear how a transaction ended, ``on_markers_written()``
  takes the answer.
- ``next_deadline_ms`` and ``on_timeout(now_ms)`` are the timers, as data.

The rules of the game are in :mod:`~penstock.coordinators.transaction.states`.
"""
