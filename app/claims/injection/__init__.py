"""Claims for the networks of Pods, and for what containers ask for by the name of a definition."""
