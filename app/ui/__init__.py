"""`berth ui`: a read-only page that shows what status, doctor and why say of a cluster. It judges nothing itself."""
