"""Tenant objects, what belongs to them, and the bundles of their agents."""
