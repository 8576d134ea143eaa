"""PodSets: where Pod templates are in wrapped objects, how many Pods each makes, and what a Workload has of them."""
