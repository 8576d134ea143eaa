"""What Berth does in a cluster, on one screen: `berth status`."""
