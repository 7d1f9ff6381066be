"""The keys of configurations, as Kafka's ConfigDef has them. Pure.

A `ConfigDef` lists the keys of a configuration with their types, defaults and validators. It parses the
strings of a configuration to values, or validates them all and reports every error, as the REST API does.
Nothing here loads a class or knows a plugin.
"""
