"""Tables kept in step with topics of change data capture: `read_changes` and `apply_changes`.

A batch of changes takes this way: `envelope` parses records, in Spark's workers. `typed_rows` gives rows
their columns. `collected` brings the batch to the driver, in order (`ordering`). `current` or `history`
computes what the changes leave of the rows. `edits` turns that into one `Edit`, which a table (`targets`)
commits together with the batch's id. If Spark repeats a batch, it finds that id.

The driver writes tables with delta-rs and pyiceberg, because Delta and Iceberg have no connector for Spark
4.3 yet. What enters here knows change records and tables; reading topics is the work of `spark.source`.
"""
