"""Many streams applications in one Spark query: they come, pause and go while it runs.

A Spark query costs a trigger's worth of planning, commits and state store whatever it reads, so that a dozen
of them keep two cores busy with nothing. Here the query is one, and what runs in it are **members**:

    source     one reader whose offsets are those of each member; topics that several members read from the
               same place are fetched once
    shuffle    by member and partition: each such group has state of its own
    operator   runs a member's tasks as `penstock.spark.streams` does
    sink       one transaction for a batch of all: outputs, changelogs, the offsets of each member's group

The **roster**, a file in the checkpoint, says which members there are; the reader looks at it whenever Spark
asks for offsets. A member that fails stands still where its last complete batch ended, and the others go on.
"""

from penstock.spark.hosting.host import Host, HostStopped
from penstock.spark.hosting.membership import Activity, MemberState, UnknownMember
from penstock.spark.hosting.roster import Standing
from penstock.spark.hosting.troubles import Trouble

__all__ = ["Activity", "Host", "HostStopped", "MemberState", "Standing", "Trouble", "UnknownMember"]
