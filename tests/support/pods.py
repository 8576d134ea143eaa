"""Pods of which a test says no more than what it is about."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]


def pod(
    name: str = "p", *, namespace: str = "", labels: JSON | None = None, annotations: JSON | None = None, **spec: Any
) -> JSON:
    """A Pod with one container, unless `spec` has others. Of its metadata, what is not given is left out."""
    given = {"namespace": namespace, "labels": labels, "annotations": annotations}
    metadata = {"name": name} | {field: value for field, value in given.items() if value}
    containers = [{"name": "c", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}
