"""The releases of other projects that run beside Berth, by the names in their manifests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """Names in the manifests of a release: its program, and what it runs with; "" is what it does not have."""

    program: str
    namespace: str
    account: str
    service: str = ""
    """That of its webhooks."""
    address: str = ""
    """The cluster IP of that Service."""
    certificate: str = ""
    """The Secret with the certificate of its webhooks."""
    config: str = ""
    """The ConfigMap with its configuration."""
    manifests: str = "config/default"
    """Their folder in its module."""


KUEUE = Release(
    "kueue",
    "kueue-system",
    "kueue-controller-manager",
    service="kueue-webhook-service",
    address="127.80.0.50",
    certificate="kueue-webhook-server-cert",
    config="kueue-manager-config",
)
APP_WRAPPER = Release(
    "appwrapper",
    "appwrapper-system",
    "appwrapper-controller-manager",
    service="appwrapper-webhook-service",
    address="127.80.0.51",
    certificate="appwrapper-webhook-server-cert",
    config="appwrapper-operator-config",
)
JOB_SET = Release(
    "jobset",
    "jobset-system",
    "jobset-controller-manager",
    service="jobset-webhook-service",
    address="127.80.0.52",
    certificate="jobset-webhook-server-cert",
    config="jobset-manager-config",
)
TRAINING_OPERATOR = Release(
    "training-operator",
    "kubeflow",
    "training-operator",
    service="training-operator",
    address="127.80.0.53",
    certificate="training-operator-webhook-cert",
    manifests="manifests/overlays/standalone",
)
KUBE_RAY = Release("kuberay", "default", "kuberay-operator")
KWOK = Release("kwok", "kube-system", "kwok-controller", manifests="kustomize/kwok")
