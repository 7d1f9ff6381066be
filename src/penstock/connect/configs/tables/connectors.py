"""Connectors, sources and sinks, and the groups of topics that sources create."""

CONNECTOR = """
name: STRING HIGH
    @ Common, 1, MEDIUM, Connector name
    Name of the connector, which no other connector of the cluster has.
connector.class: STRING HIGH
    @ Common, 2, LONG, Connector class
    Class of the connector: the name of a class in Java that Penstock has too, the short form of such a name
    (FileStreamSource), or a class in Python (module:Class).
connector.plugin.version: STRING MEDIUM = null
    @ Common, 3, MEDIUM, Connector version
    Version of the connector, or a range of versions such as [1.0,2.0).
tasks.max: INT HIGH = 1
    @ Common, 4, SHORT, Tasks max
    Most tasks that the connector may have.
tasks.max.enforce: BOOLEAN LOW = true
    @ Common, 5, SHORT, Enforce tasks max
    Deprecated: whether a connector with more tasks than tasks.max fails.
key.converter: CLASS LOW = null
    @ Common, 6, SHORT, Key converter class
    Converter between the keys of records and their bytes; the worker's one if unset.
key.converter.plugin.version: STRING LOW = null
    @ Common, 7, SHORT, Key converter version
    Version of the key converter, or a range of versions.
value.converter: CLASS LOW = null
    @ Common, 8, SHORT, Value converter class
    Converter between the values of records and their bytes; the worker's one if unset.
value.converter.plugin.version: STRING LOW = null
    @ Common, 9, SHORT, Value converter version
    Version of the value converter, or a range of versions.
header.converter: CLASS LOW = null
    @ Common, 10, SHORT, Header converter class
    Converter between the headers of records and their bytes; the worker's one if unset.
header.converter.plugin.version: STRING LOW = null
    @ Common, 11, SHORT, Header converter version
    Version of the header converter, or a range of versions.
transforms: LIST LOW =
    @ Transforms, 12, LONG, Transforms
    Names of the transforms that change records, in their order; each has keys transforms.<name>.*.
predicates: LIST LOW =
    @ Predicates, 13, LONG, Predicates
    Names of the predicates that transforms can use; each has keys predicates.<name>.*.
config.action.reload: STRING LOW = restart
    @ Common, 14, MEDIUM, Reload Action
    What happens when a value of a config provider expires: restart the connector with new values, or none
    (nothing).
errors.retry.timeout: LONG MEDIUM = 0
    @ Error Handling, 1, MEDIUM, Retry Timeout for Errors
    Longest time in milliseconds that a failed operation is repeated: 0 for never, -1 without a limit.
errors.retry.delay.max.ms: LONG MEDIUM = 60000
    @ Error Handling, 2, MEDIUM, Maximum Delay Between Retries for Errors
    Longest wait between two attempts; waits of this length vary by chance.
errors.tolerance: STRING MEDIUM = none
    @ Error Handling, 3, SHORT, Error Tolerance
    Whether a record that fails also fails the task (none), or is skipped (all).
errors.log.enable: BOOLEAN MEDIUM = false
    @ Error Handling, 4, SHORT, Log Errors
    Whether tolerated errors are logged too.
errors.log.include.messages: BOOLEAN MEDIUM = false
    @ Error Handling, 5, SHORT, Log Error Details
    Whether logged errors show the record that failed, so that keys, values and headers are in log files.
"""

SOURCE = """
topic.creation.groups: LIST LOW =
    @ Topic Creation, 1, LONG, Topic Creation Groups
    Names of groups of topics that the worker creates with settings of their own, topic.creation.<name>.*.
exactly.once.support: STRING MEDIUM = requested
    @ Exactly Once Support, 2, SHORT, Exactly once support
    Whether the connector must say that it can be exactly once (required), or is only expected to be
    (requested). With required, a worker without exactly-once support refuses the connector.
transaction.boundary: STRING MEDIUM = poll
    @ Exactly Once Support, 3, SHORT, Transaction Boundary
    Where the transactions of an exactly-once source end: after each batch of a task (poll), at intervals
    (interval), or where the connector says so, if it can (connector).
transaction.boundary.interval.ms: LONG LOW = null
    @ Exactly Once Support, 4, SHORT, Transaction boundary interval
    Time between two commits if transaction.boundary is interval; the worker's offset.flush.interval.ms if
    unset.
offsets.storage.topic: STRING LOW = null
    @ offsets.topic, 1, LONG, Offsets topic
    Topic for the offsets of this connector, in place of the worker's; created if it does not exist.
    Standalone workers do not use it.
"""

SINK = """
topics: LIST HIGH =
    @ Common, 4, LONG, Topics
    Topics to read, separated by commas.
topics.regex: STRING HIGH =
    @ Common, 4, LONG, Topics regex
    Regular expression, in Java's syntax, of the names of topics to read, in place of topics.
errors.deadletterqueue.topic.name: STRING MEDIUM =
    @ Error Handling, 6, MEDIUM, Dead Letter Queue Topic Name
    Topic for records that the sink, its transforms or its converters cannot process; none if empty.
errors.deadletterqueue.topic.replication.factor: SHORT MEDIUM = 3
    @ Error Handling, 7, MEDIUM, Dead Letter Queue Topic Replication Factor
    Replicas of that topic if the worker creates it.
errors.deadletterqueue.context.headers.enable: BOOLEAN MEDIUM = false
    @ Error Handling, 8, MEDIUM, Enable Error Context Headers
    Whether headers __connect.errors.* of records in that topic say where they come from and what failed.
"""

TOPIC_GROUP = """
include: LIST LOW =
    @ Topic Creation, 1, LONG, Inclusion Topic Pattern for
    Regular expressions, separated by commas: the group has the topics whose names match one of them.
exclude: LIST LOW =
    @ Topic Creation, 2, LONG, Exclusion Topic Pattern for
    Regular expressions, separated by commas: the group does not have the topics whose names match one of
    them.
replication.factor: SHORT LOW
    @ Topic Creation, 3, LONG, Replication Factor for Topics in
    Replicas of new topics of the group; -1 for the broker's default.
partitions: INT LOW
    @ Topic Creation, 4, LONG, Partition Count for Topics in
    Partitions of new topics of the group; -1 for the broker's default.
"""
"""The heading of a group takes the place of the group, and follows the display names."""
