"""Keeps the ResourceClaimTemplates of definitions in the namespaces that use them."""
