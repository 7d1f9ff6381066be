"""Keys, values and records as text, for `penstock consume` and `penstock produce`.

`formats` selects a codec by the name of its format; each module beside it holds codecs, and only the ones
that use a registry load its libraries. `printing` and `layout` print whole records. Options and clients
belong to the commands.
"""
