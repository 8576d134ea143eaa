"""Field ownership and the patches that merge."""
