"""What the wing keeps of objects: pure projections of checked objects of an API server."""
