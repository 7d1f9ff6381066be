"""The metadata quorum (KRaft): this node's member of it, the metadata log on disk, and its requests.

`consensus` decides, and this package carries the decisions out: it writes the log and the snapshots, sends
and answers the quorum's requests, and notifies its one listener of committed records. Code enters this
package if it connects the Raft state machine to the disk, the network or the event loop. The rest of the node
uses `quorum.Quorum` and the interface in `listener`.
"""
