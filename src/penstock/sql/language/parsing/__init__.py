"""A recursive descent parser for ksqlDB's grammar: a lexer, a cursor over its tokens, and parsing functions.

It produces statements (`penstock.sql.language.statements`) whose expressions are sqlglot's nodes. sqlglot's
own parser does not fit: it accepts the syntax of every dialect, so invalid SQL would pass or fail late, and
its errors do not list the valid alternatives. Its nodes and its generator do fit: other packages search and
rewrite the nodes, and print them for Spark. Only parsing belongs here: printing stands one room below.
"""
