"""The agent of a tenant cluster: reports what runs and what is wanted there, and writes back the results."""
