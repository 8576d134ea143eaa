"""What the page shows of the workloads wing: rules, and what a rule would match."""
