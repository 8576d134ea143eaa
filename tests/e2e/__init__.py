"""What a user does: a package, so that its sandbox lasts for its tests and no longer."""
