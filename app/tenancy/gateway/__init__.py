"""The one door of the infra cluster for tenants and the cloud admin: gRPC over mutual TLS, kept in its objects."""
