"""The connectors that Penstock has itself: their classes by names of Java's, or by names of their own.

The modules lie above this room, so they are named only, and imported when a connector is first used.
"""

from __future__ import annotations

from typing import Final

_APACHE: Final = "org.apache.kafka.connect.file.FileStream{}Connector"
_JDBC: Final = "io.{}.connect.jdbc.Jdbc{}Connector"
_OWN: Final = "penstock.connect.{}Connector"
_FILE_STREAM: Final = "penstock.connect.connectors.file_stream:FileStream{}Connector"
_HERE: Final = "penstock.connect.connectors."
_CDC: Final = "penstock.connect.cdc."
_SEARCH: Final = f"{_HERE}search:SearchSinkConnector"

SOURCES: Final = {
    _APACHE.format("Source"): _FILE_STREAM.format("Source"),
    "com.github.castorm.kafka.connect.http.HttpSourceConnector": f"{_HERE}http.source:HttpSourceConnector",
    "io.aiven.kafka.connect.s3.source.S3SourceConnector": f"{_HERE}objects:ObjectsSourceConnector",
    _JDBC.format("confluent", "Source"): f"{_HERE}sql.source:SqlSourceConnector",
    "io.confluent.kafka.connect.datagen.DatagenConnector": f"{_HERE}generator:DatagenConnector",
    "io.debezium.connector.mariadb.MariaDbConnector": f"{_CDC}mysql.source:MariaDbConnector",
    "io.debezium.connector.mysql.MySqlConnector": f"{_CDC}mysql.source:MySqlConnector",
    "io.debezium.connector.postgresql.PostgresConnector": f"{_CDC}postgres.source:PostgresConnector",
    _OWN.format("FilesSource"): f"{_HERE}files:FilesSourceConnector",
    _OWN.format("ObjectsSource"): f"{_HERE}objects:ObjectsSourceConnector",
}
SINKS: Final = {
    _APACHE.format("Sink"): _FILE_STREAM.format("Sink"),
    "io.aiven.connect.elasticsearch.ElasticsearchSinkConnector": _SEARCH,
    "io.aiven.kafka.connect.http.HttpSinkConnector": f"{_HERE}http.sink:HttpSinkConnector",
    "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector": _SEARCH,
    "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector": _SEARCH,
    _JDBC.format("confluent", "Sink"): f"{_HERE}sql.sink:SqlSinkConnector",
    "io.confluent.connect.s3.S3SinkConnector": f"{_HERE}lake.objects:ObjectsSinkConnector",
    "org.apache.iceberg.connect.IcebergSinkConnector": f"{_HERE}lake.iceberg:IcebergSinkConnector",
    _OWN.format("DeltaSink"): f"{_HERE}lake.delta:DeltaSinkConnector",
    _OWN.format("FilesSink"): f"{_HERE}files:FilesSinkConnector",
    _OWN.format("ObjectsSink"): f"{_HERE}lake.objects:ObjectsSinkConnector",
}
ALIASES: Final = {
    _JDBC.format("confluent", each): (_JDBC.format("aiven", each),) for each in ("Source", "Sink")
}
"""Names of other Java classes that take the same configurations."""
