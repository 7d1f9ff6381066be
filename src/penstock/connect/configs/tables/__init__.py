"""The keys of workers and of their clients, in the form that `key_table` reads."""
