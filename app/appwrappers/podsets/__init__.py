"""PodSets: where Pod templates are in wrapped objects, how many Pods each stands for, and what Kueue is told of them."""
