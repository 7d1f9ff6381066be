"""Interactive queries under load: a million keys, updates and lookups at fixed rates."""
