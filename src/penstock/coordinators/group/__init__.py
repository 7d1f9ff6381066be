"""The group coordinator: who is in a consumer group, and how far it has read.

One :class:`~penstock.coordinators.group.coordinator.GroupCoordinator` is the state of one partition of
`__consumer_offsets`. It does no I/O and reads no clock:

- ``handle_…(request, …, now_ms) -> (records, response)`` decides. Records are what must be in the log
  before the response may leave; a response of ``PARKED`` comes later, through ``take_replies()``.
- ``replay(record, …)`` applies a record, live after its append and at recovery alike. Everything that
  survives a restart changes here only.
- ``next_deadline_ms`` and ``on_timeout(now_ms)`` are the timers, as data.
"""
