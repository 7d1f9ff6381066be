"""State stores: typed access to the state of nodes, over one ordered map of bytes per task.

Only what keeps state, and knows how it is laid out as bytes, belongs here; operators decide what to keep.
"""
