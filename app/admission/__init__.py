"""Reviews: what an API server sends, how Berth decides, and what it answers."""
