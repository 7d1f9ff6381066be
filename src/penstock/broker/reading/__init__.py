"""Fetch requests of consumers and followers: sessions, reads of partitions, and reads that need the disk.

Code enters this room if it answers Fetch. The partitions themselves, with their offsets and wait lists, are
in `partitions`.
"""
