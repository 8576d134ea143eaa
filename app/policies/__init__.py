"""Admission policies in place of the webhook: what they can do of it, and what is left to the webhook."""
