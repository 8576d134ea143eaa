"""Direct configuration: RmdWorkloads become reservations of the daemons on their nodes."""
