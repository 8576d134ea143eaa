"""The indexes of an Indexed Job: as its status writes them, and of its Pods. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from app.wire import JSON

INDEX = "batch.kubernetes.io/job-completion-index"
"""The annotation and the label of a Pod with its index."""


def index_of(pod: JSON) -> int | None:
    """The index of a Pod, None of one without."""
    text = str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return int(text) if text.isdecimal() else None


def indexes_of(pods: Iterable[JSON]) -> set[int]:
    return {index for pod in pods if (index := index_of(pod)) is not None}


def exhausted(failed: Iterable[JSON], limit: int | None) -> set[int]:
    """The indexes that have failed more often than each may; none without a limit."""
    if limit is None:
        return set()
    counts = Counter(index for pod in failed if (index := index_of(pod)) is not None)
    return {index for index, count in counts.items() if count > limit}


def read_indexes(text: str | None) -> set[int]:
    """The indexes of `0,2-4`."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def shown_indexes(indexes: Iterable[int]) -> str:
    """Runs of three and more, and of two, as `0,2-4`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)


def put_index(pod: JSON, job_name: str, index: int) -> None:
    """Make a Pod the one with this index: label, annotation, host name and JOB_COMPLETION_INDEX."""
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["generateName"] = f"{job_name[:52]}-{index}-"
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), INDEX: str(index)}
    spec["hostname"] = f"{job_name}-{index}"
    reference = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        known = [one for one in container.get("env") or [] if one["name"] != "JOB_COMPLETION_INDEX"]
        container["env"] = [*known, {"name": "JOB_COMPLETION_INDEX", "valueFrom": reference}]
