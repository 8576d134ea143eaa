"""Tools for development and demonstration: a sandbox of clusters and a demo. No module of the product imports them."""
