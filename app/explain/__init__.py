"""What would be injected into a manifest, and why. Serves `berth explain`."""
