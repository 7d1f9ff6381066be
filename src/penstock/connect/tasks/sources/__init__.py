"""The loop of source tasks, at least once or exactly once, with offsets and the topics that they create."""
