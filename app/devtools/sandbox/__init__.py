"""A cluster in Python that stands in for Kubernetes: an API server, scheduler, kubelets and controllers."""
