"""librdkafka's tests that wait for a capability Penstock lacks so far: test number → the capability's name."""

LATER: dict[str, str] = {}
