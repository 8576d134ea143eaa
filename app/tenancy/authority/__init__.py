"""The gateway's certificates, in Secrets."""
