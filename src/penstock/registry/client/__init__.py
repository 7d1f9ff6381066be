"""A client of schema registries, ours or Confluent's: schemas by id, by subject, and their registration.

`RegistryConfig` knows the properties, `RegistryClient` asks and remembers, `shared_registry` is one for a
process. HTTP is the standard library's.
"""
