"""What is checked of Pods and RmdWorkloads when they are written, and the RDT classes that Pods are given."""
