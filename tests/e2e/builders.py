"""The objects that the end-to-end tests write."""

from __future__ import annotations

import json
from typing import Any

JSON = dict[str, Any]


def attachment(name: str, annotations: dict[str, str], *, namespace: str = "default", config: str = "") -> JSON:
    """A NetworkAttachmentDefinition; its annotations are given without their common prefix."""
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {f"k8s.v1.cni.cncf.io/{key}": value for key, value in annotations.items()},
        },
        "spec": {"config": config or json.dumps({"cniVersion": "0.3.1", "name": name, "type": "bridge"})},
    }


def pod(name: str, networks: str | None, **extra: Any) -> JSON:
    """A Pod with one container; `extra` sets labels, annotations, namespace or fields of the spec."""
    annotations = {**extra.pop("annotations", {})}
    if networks is not None:
        annotations["k8s.v1.cni.cncf.io/networks"] = networks
    metadata = {"name": name, "namespace": extra.pop("namespace", "default"), "annotations": annotations}
    if "labels" in extra:
        metadata["labels"] = extra.pop("labels")
    container = {"name": "main", "image": "busybox", "command": ["tail", "-f", "/dev/null"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **extra},
    }
