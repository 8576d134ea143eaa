"""Tenants across clusters: identities, the gateway that they call, and the agent that calls it."""
