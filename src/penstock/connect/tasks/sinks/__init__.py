"""The loop of sink tasks, with commits, rebalances, and the records that a task reports as errors."""
