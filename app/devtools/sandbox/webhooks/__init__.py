"""Admission webhooks as the API server treats them: what may be registered, who is asked, and what an answer means."""
