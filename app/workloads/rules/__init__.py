"""Rules: what they may say, and their keys and values."""
