"""Which rules match which workloads, kept up to date event by event."""
