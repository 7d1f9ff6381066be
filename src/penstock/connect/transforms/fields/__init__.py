"""Transforms that change the fields of keys and values. Pure.

    part        a transform of either the key or the value, and the refusals of values that do not fit
    paths       names of fields, nested ones included (KIP-821)
    schemas     schemas built from others, and a cache of what a transform derived from a schema
    settings    settings that several transforms share
    casting     values of one type as another, as Java casts and parses them

The other modules have the transforms. Each works on structs with a schema and on dicts without one.
"""
