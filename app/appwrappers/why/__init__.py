"""Why AppWrappers and what Kueue keeps for them are as they are."""
