"""Members of consumer groups that read topics, by the classic protocol and the range assignor.

`GroupConsumer` is to be used by one thread. What is done with the records does not belong here.
"""
