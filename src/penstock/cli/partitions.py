"""Parse and sort topics and partitions on the command line."""

import re

from penstock.cli.connection import EXIT_USAGE, fail


def parse_partitions(text: str) -> tuple[str, list[int]]:
    """Parse `TOPIC` or `TOPIC:0,1` into the topic's name and the named partitions (none for `TOPIC`)."""
    match = re.fullmatch(r"([^:]+)(?::(\d+(?:,\d+)*))?", text)
    if match is None:
        fail(f"expected TOPIC or TOPIC:0,1,…, found {text!r}", EXIT_USAGE)
    return match[1], [int(number) for number in match[2].split(",")] if match[2] else []


def is_internal(topic: str) -> bool:
    """Whether a topic is the cluster's own by its name, such as `__consumer_offsets`."""
    return topic.startswith("__")
