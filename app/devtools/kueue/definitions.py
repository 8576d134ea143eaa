"""The CustomResourceDefinitions of the stand-in for Kueue. Neither the chart nor `berth crds` has them."""

from __future__ import annotations

from importlib import resources
from typing import cast

from app.appwrappers.kueue.model import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from app.wire import JSON, load_yaml

KINDS = (WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES)


def kueue_definitions() -> list[JSON]:
    """Of `KINDS`, in their order; each caller's own."""
    folder = resources.files("app.devtools.kueue") / "crds"
    texts = ((folder / f"{kind.plural}.yaml").read_text(encoding="utf-8") for kind in KINDS)
    return [cast("JSON", load_yaml(text)) for text in texts]
