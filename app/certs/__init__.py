"""Wing: certificates — issuing, renewing, keeping on disk and in a cluster. Serves `berth certs`."""
