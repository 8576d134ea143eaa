"""The built-in kinds as an API server sees them: their fields, defaults and validation. Pure; makes no requests."""
