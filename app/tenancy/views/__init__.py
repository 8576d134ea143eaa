"""What the page shows of the tenancy wing: the fabric of hosts and DPUs, and tenants."""
