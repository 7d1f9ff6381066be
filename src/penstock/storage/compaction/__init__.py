"""Log compaction: it keeps only the newest record of each key, at the record's original offset.

A clean is one compaction of one log. The modules of this package each do one part of it, and only such parts
belong here. They run on the event loop or in a worker thread:

    log_cleaner      selects the log to clean next, runs the workers, handles outcomes    event loop
    cleanable        computes how much of a log may be cleaned, and how dirty it is       event loop
    cleaner          does one clean: maps the keys of the dirty part, filters segments    worker
    grouping         groups the segments that one new segment replaces                    worker
    segment_reader   reads runs of plain batches, and batches of other kinds one by one   worker
    batch_filter     filters the records of one batch or of a run                         worker
    transactions     tracks aborted transactions and the markers that are still needed    worker

Only the kernel that maps and filters records (`protocol.kernels`) decodes them. It takes batches that are
neither compressed nor part of an aborted transaction in runs: one call without the GIL handles many of them,
however small they are. `segments.cleaned_segment` writes the files of a new segment: `.cleaned`, `.swap`,
then final names.

A clean replaces each group of segments by one new segment. The new files are complete and durable under the
suffix `.swap` before the event loop renames the old ones away and adds the new segment, both in one turn.
If the node is killed before that, recovery only has to remove `.cleaned` files; if it is killed during the
swap, recovery completes the swap (`partition.leftovers`). Readers of the old segments keep their descriptors.
"""
