"""The reconcilers: companions as rules and workloads want them, and statuses."""
