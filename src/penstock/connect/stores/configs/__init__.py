"""The topic of configurations: what each record means, what each operation writes, and the live store."""
