"""The group coordinator: it keeps the members of consumer groups and their committed offsets.

One :class:`~penstock.coordinators.group.coordinator.GroupCoordinator` holds the state of one partition of
`__consumer_offsets`. It does no I/O and reads no clock, and neither may any other code in this package:

- ``handle_…(request, …, now_ms) -> (records, response)`` decides. The records must be in the log before the
  response may be sent; a ``PARKED`` response follows later, through ``take_replies()``.
- ``replay(record, …)`` applies a record, both live after its append and at recovery. Everything that survives
  a restart changes here only.
- ``next_deadline_ms`` and ``on_timeout(now_ms)`` are the timers, as data.
"""
