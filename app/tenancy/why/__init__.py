"""Why tenants, their nodes and the trust between gateway and agents are as they are."""
