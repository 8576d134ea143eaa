"""Calling admission webhooks as the API server does."""
