"""Berth: an admission webhook and reconcilers that put every Pod beside the network hardware it needs."""
