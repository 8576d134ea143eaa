"""The built-in kinds: their fields, defaults, validation, and what custom resources add to them."""
