"""The shell of `penstock sql`: sends statements to a server of ksqlDB's REST API and prints the answers.

- `rest`: the server; `script`: splits text into statements, each with its position;
- `session`: settings, and the execution of each statement; `commands`: the shell's own commands;
  `endings`: the exceptions that end a statement or the shell;
- `printing`: tables and JSON, on the terminal and in a spool file; `entities`: each kind of answer as tables;
  `rows`: rows that arrive one by one;
- `completion` and `prompt`: the input line.
"""
