"""Whose finalizers are: an object that is held waits for these controllers. Pure.

Berth prints a command that removes a finalizer of its own alone. Who removes that of another skips what the other has
still to do, such as the deletion of a load balancer.
"""

from __future__ import annotations

from collections.abc import Iterable

_OWNERS = {
    "foregroundDeletion": "the garbage collector of Kubernetes, which removes it when its dependents are gone",
    "orphan": "the garbage collector of Kubernetes, which removes it when its dependents have no owner",
    "kubernetes": "the namespace controller of Kubernetes, which removes it when the namespace is empty",
    "batch.kubernetes.io/job-tracking": "the Job controller of Kubernetes, which removes it when the Pod is counted",
    "kubernetes.io/pvc-protection": "kube-controller-manager, which removes it when no Pod uses the claim",
    "kubernetes.io/pv-protection": "kube-controller-manager, which removes it when no claim is bound to the volume",
    "resource.kubernetes.io/delete-protection": "kube-controller-manager, which removes it when no Pod uses the claim",
    "service.kubernetes.io/load-balancer-cleanup": (
        "the service controller of the cloud, which removes it when the load balancer is gone"
    ),
    "customresourcecleanup.apiextensions.k8s.io": "the API server, which removes it when no object of the kind is left",
    "workload.codeflare.dev/finalizer": "controller appwrappers, which removes it when the objects are gone",
    "intel.com/rmd-reservations": "controller rmd, which removes it when the daemons have no reservations",
}


def whose(finalizers: Iterable[str]) -> str:
    """Which controllers remove these; "" for none."""
    texts = []
    for name in finalizers:
        group = name.partition("/")[0]
        owner = _OWNERS.get(name, f"the controller of {group}" if group != name else "the controller that wrote it")
        texts.append(f"{name} is of {owner}")
    return "; ".join(texts)
