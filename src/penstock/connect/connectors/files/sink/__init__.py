"""The sink of local files, which writes each record once.

definition    its configuration keys
encoding      records as lines, JSON, CSV or Avro
output_files  files under a temporary name until they are complete, and their names then
task          one file for each partition, and when it is complete
connector     the connector
"""
