"""The log directories of a node: their files at the top, and the manager of all logs in them.

Only what concerns a whole directory or several logs belongs here.
"""
