"""What `kubectl get` prints: tables and columns."""
