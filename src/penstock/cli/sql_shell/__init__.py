"""The shell of `penstock sql`: statements to a server of ksqlDB's REST API, and what it answers, for people.

- `rest`: the server; `script`: text into statements, each with its place;
- `session`: what is set, and what becomes of each statement; `commands`: what the shell does by itself;
  `endings`: what else may become of one;
- `printing`: tables and JSON, on the terminal and in a spool file; `entities`: each kind of answer as tables;
  `rows`: rows that come one by one;
- `completion` and `prompt`: the line that is typed.
"""
