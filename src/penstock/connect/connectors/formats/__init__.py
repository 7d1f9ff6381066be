"""Reads files of records in the formats that sources share; knows neither directories nor object stores.

    items            what a reader gives: a record or a bad one, and the position after it
    settings         the configuration keys of formats
    opening          opens a file of any format, also compressed
    compression      gzip, bzip2 and zstd, recognized by their first bytes
    delimited        splits files into lines, also while they grow
    text             lines as text, or as JSON
    json_documents   JSON values one after the other, or the elements of arrays
    csv_rows         rows of CSV
    csv_types        the types of columns that are not text
    avro_containers  Avro container files
    parquet          Parquet files
    arrow_types      the schemas and values of Arrow's columns
    bad_records      what happens to records that cannot be read

A position is a number of bytes in formats of text, and the index of a record in the others. A reader that
begins at the position behind any item repeats nothing and misses nothing.
"""
