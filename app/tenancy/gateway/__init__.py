"""The gRPC server of the infra cluster for tenants and the cloud admin, over mutual TLS; API objects keep its state."""
