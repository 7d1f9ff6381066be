"""ksqlDB's grammar by recursive descent, into statements (`penstock.sql.statements`) whose expressions are
sqlglot's nodes.

sqlglot's own parser is not used: it takes what any dialect takes, so that wrong SQL would pass or be told
late, and its errors don't say what could have stood there. Its nodes and its generator are: they are what
is searched, rewritten, and printed for Spark.
"""
