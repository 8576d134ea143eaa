"""What each role is told: flags, environment and defaults, read in one place."""
