"""Stand-ins for scheduler, kubelets, garbage collector and namespace controller: clients like any other."""
