"""Companions: their names, marks and manifests. Pure."""
