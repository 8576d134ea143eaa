"""Dynamic resource allocation as the scheduler does it: devices of nodes, selectors, claims, extended resources."""
