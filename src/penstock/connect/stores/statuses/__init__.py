"""The topic of statuses: what each record means, which may be written, and the live store."""
