"""The runtime that the coordinators of groups and transactions share: loading, appends, committed answers.

Code enters this room if both kinds of coordinators need it, or if partitions ask a coordinator
(`verification`). The decisions are in `penstock.coordinators`.
"""
