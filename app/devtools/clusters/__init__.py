"""The sandbox: which clusters there are, what stands in them, and how they are started and stopped."""
