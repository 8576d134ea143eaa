"""Templates and manifests: what the API server would refuse, and what tenants may not do."""
