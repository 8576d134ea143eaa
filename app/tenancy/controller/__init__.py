"""The reconcilers of tenants: namespaces, node labels, pins, statuses."""
