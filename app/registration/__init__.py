"""How an API server is made to call Berth: the objects, and who writes them."""
