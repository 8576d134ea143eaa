"""The role `rmd-node`: on each node, Pods become RmdWorkloads for the cores that kubelet gave them."""
