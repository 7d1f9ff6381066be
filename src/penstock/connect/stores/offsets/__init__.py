"""The topics of source offsets: keys and values, the live stores, and how tasks read and write offsets."""
