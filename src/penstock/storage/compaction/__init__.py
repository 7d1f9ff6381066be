"""Compaction: of a log's records only the newest of each key stays, at the offset it always had.

A clean of one log goes through these modules:

    log_cleaner      which log is next, and when; workers; what is told to whom          event loop
    cleanable        how much of a log may be cleaned, and how dirty it is                event loop
    cleaner          one clean: map the keys of the dirty part, then filter the segments   worker
    grouping         which segments become one                                            worker
    segment_reader   runs of plain batches, and single ones of other kinds                worker
    batch_filter     what remains of one batch, or of a run                               worker
    transactions     which transactions were aborted, which markers are still needed      worker
    cleaned_segment  the new segment's files: .cleaned, then .swap, then in place         worker

Records are decoded by the kernel that maps and filters them (`protocol.kernels`), nowhere else. It takes
batches that are neither compressed nor of aborted transactions in runs, many a call without the GIL, however
small they are.

A log is cleaned in groups of segments, each replaced by one. The new files are complete and durable under
the suffix `.swap` before the event loop renames the old ones away and takes the new ones in, in one turn; a
node that is killed before has only `.cleaned` files to remove, after it completes the swap (`recovery`).
Readers that hold the old segments keep their descriptors.
"""
