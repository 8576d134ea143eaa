"""RmdWorkloads become reservations of the daemons on their nodes; an RmdConfig says where daemons run."""
