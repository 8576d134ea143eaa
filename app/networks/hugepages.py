"""Huge pages through the downward API: which files a container's huge pages become, and its CONTAINER_NAME. Pure."""

from __future__ import annotations

from functools import lru_cache

from app.admission.chain import Plan, audit_text
from app.admission.pods import Container, Pod, Quantity
from app.kube import quantity
from app.text import quoted
from app.wire import JSON

CONTAINER_NAME = "CONTAINER_NAME"
_PREFIX = "hugepages-"


def plan_hugepages(pod: Pod, plan: Plan) -> list[JSON]:
    """The downward-API items for every amount of huge pages that an app container requests or is limited to.

    A file holds the amount in MiB; requests come before limits, sizes are sorted. CONTAINER_NAME is planned for each
    container with files, so that it finds its own. An existing variable of that name stays; where its value differs,
    the user is warned.
    """
    files: list[JSON] = []
    planned: list[str] = []
    for index, container in enumerate(pod.spec.containers):
        own = _files(container)
        if own:
            files += own
            planned += _plan_name(index, container, plan)
    if planned:
        plan.count("env", len(planned))
        plan.audit["env"] = audit_text(f"{CONTAINER_NAME} for huge pages of container {name}" for name in planned)
    return files


def _plan_name(index: int, container: Container, plan: Plan) -> list[str]:
    """The container's name where its variable was planned."""
    for env in container.env:
        if env.name == CONTAINER_NAME:
            if env.value != container.name:
                plan.warnings.append(
                    f"container {quoted(container.name)} sets {CONTAINER_NAME} itself: it stays, "
                    "although the names of its huge page files end in the container's name"
                )
            return []
    reason = f"huge pages of container {quoted(container.name)}"
    path = f"/spec/containers/{index}/env"
    plan.patch.ensure(path, [], present=bool(container.env), reason=reason)
    plan.patch.add(f"{path}/-", {"name": CONTAINER_NAME, "value": container.name}, reason=reason)
    return [quoted(container.name)]


def _files(container: Container) -> list[JSON]:
    resources = container.resources
    if resources is None:
        return []
    if not any(name.startswith(_PREFIX) for name in (*resources.requests, *resources.limits)):
        return []
    sides = (("requests", "request", resources.requests), ("limits", "limit", resources.limits))
    return [
        {
            "path": f"hugepages_{name.removeprefix(_PREFIX).replace('i', '')}_{word}_{container.name}",
            "resourceFieldRef": {"containerName": container.name, "resource": f"{side}.{name}", "divisor": "1Mi"},
        }
        for side, word, amounts in sides
        for name in sorted(amounts)
        if len(name) > len(_PREFIX) and name.startswith(_PREFIX) and _is_some(amounts[name])
    ]


@lru_cache(maxsize=1024)
def _is_some(amount: Quantity) -> bool:
    try:
        return quantity.parse(amount) != 0
    except ValueError:
        return False  # the API server refuses the Pod and says why
