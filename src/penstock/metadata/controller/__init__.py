"""The decisions of the active controller: each turns a request or a timeout into records and a response.

A function here reads `ControllerState`, and returns a `Decision` or raises `Refusal`. It does no I/O and
appends nothing itself; the quorum appends the records, and replaying them changes the state.
"""
