"""A stand-in for Kueue, for tests and the sandbox: its kinds, and a scheduler of Workloads."""
