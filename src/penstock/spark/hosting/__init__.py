"""Many streams applications in one Spark query: members are added, paused and removed while it runs.

Every Spark query pays for planning, commits and the state store at each trigger, so a dozen idle queries keep
two cores busy. Here there is one query, and the applications that run in it are its **members**:

    source     one reader whose offsets are those of each member; topics that several members read from the
               same offset are fetched once
    shuffle    by member and partition: each such group has its own state
    operator   runs a member's tasks as `penstock.spark.streams` does
    sink       one transaction per batch for all members: outputs, changelogs, their groups' offsets

The **roster**, a file in the checkpoint, lists the members; the reader checks it whenever Spark asks for
offsets. A member that fails stays at the end of its last complete batch, and the others continue. The package
holds what hosting adds; code that an application also needs on its own belongs in `penstock.spark.streams`.
"""

from penstock.spark.hosting.host import Host, HostStopped
from penstock.spark.hosting.membership import Activity, MemberState, UnknownMember
from penstock.spark.hosting.roster import Standing
from penstock.spark.hosting.troubles import Trouble

__all__ = ["Activity", "Host", "HostStopped", "MemberState", "Standing", "Trouble", "UnknownMember"]
