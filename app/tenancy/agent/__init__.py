"""The agent of a tenant cluster: tells the gateway what runs and what is wanted there, and writes back the results."""
