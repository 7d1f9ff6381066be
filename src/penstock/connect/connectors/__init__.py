"""Connectors that ship with Penstock, written with nothing but what users have.

file_stream   the lines of a file as records, and records as lines: Kafka's FileStreamSource and -Sink
formats       reads files of records in several formats; for the next two
files         local files: complete ones, logs that grow, and files of records
objects       the objects of S3 and other stores
generator     generated records, as Confluent's Datagen
sql           rows of SQL databases: the JDBC connectors of Kafka Connect
http          polls HTTP APIs, and sends records to them
search        writes documents to OpenSearch and Elasticsearch
lake          sinks into Parquet and JSON files on object stores, and into tables of Delta and Iceberg
"""
