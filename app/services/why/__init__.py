"""Why Services on secondary networks have the endpoints that they have."""
