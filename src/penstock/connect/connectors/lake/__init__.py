"""Sinks that write tables and files of a data lake.

columns/   records as Arrow tables, by their Connect schemas or without one
tables/    the task of sinks into tables, which stage rows and commit them with the offsets that they cover
delta/     tables of Delta Lake
iceberg/   tables of Iceberg
objects/   files in object stores: Parquet and lines of JSON

Writing data files (`stage`) and making them part of a table (`commit`) are separate steps, so that several
processes can stage what one commits. What enters here knows Arrow and lake formats, but no worker.
"""
