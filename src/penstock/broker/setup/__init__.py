"""The ground of a node: its machine, the format of its storage, log levels, and limits from its configs.

Code enters this room if a node or the command line needs it before the node serves anything. `host` is the
interface that a node offers to all of its parts.
"""
