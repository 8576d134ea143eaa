"""ResourceClaims for tests: how they are made and allocated, and how their status is written."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]
GROUP = "/apis/resource.k8s.io/v1"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
DRIVER = "d.example.com"
DEVICE = {"driver": DRIVER, "pool": "n1", "device": "dev-0"}
"""What identifies the first device of an allocation."""
RESULTS = [{"request": "r", **DEVICE}, {"request": "r", **DEVICE, "device": "dev-1"}]
ALLOCATION: JSON = {
    "devices": {"results": RESULTS},
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    },
}
"""Two devices on the node n1."""


def request(**fields: Any) -> JSON:
    return {"name": "r", "exactly": {"deviceClassName": "c", **fields}}


def spec(*requests: JSON, **fields: Any) -> JSON:
    """The spec of a claim with these requests, or with one."""
    return {"devices": {"requests": list(requests) or [request()], **fields}}


def claim_path(namespace: str, name: str = "", *, status: bool = False) -> str:
    parts = [
        GROUP,
        "namespaces",
        namespace,
        "resourceclaims",
        *([name] if name else []),
        *(["status"] if status else []),
    ]
    return "/".join(parts)


def create_claim(served: Any, namespace: str, name: str = "claim", **fields: Any) -> JSON:
    body = {"metadata": {"name": name}, "spec": spec(), **fields}
    answer = served.request("POST", claim_path(namespace), body)
    assert answer.status == 201, answer.body
    return dict(answer.body)


def patch_status(served: Any, namespace: str, status: JSON, *, name: str = "claim", **options: Any) -> Any:
    """A merge patch of the status, or another patch by `content_type`; `options` are those of a request."""
    path = claim_path(namespace, name, status=True)
    return served.request("PATCH", path, {"status": status}, **{"content_type": MERGE, **options})


def allocate(served: Any, namespace: str, *, name: str = "claim", allocation: JSON = ALLOCATION, **fields: Any) -> None:
    answer = patch_status(served, namespace, {"allocation": allocation, **fields}, name=name)
    assert answer.status == 200, answer.body


def apply_devices(
    served: Any,
    namespace: str,
    devices: list[JSON] | None,
    manager: str,
    *,
    name: str = "claim",
    force: bool = False,
    **options: Any,
) -> Any:
    """A server-side apply of the status with these devices; without a status where they are None."""
    body: JSON = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}}
    if devices is not None:
        body["status"] = {"devices": devices}
    path = f"{claim_path(namespace, name, status=True)}?fieldManager={manager}&force={str(force).lower()}"
    return served.request("PATCH", path, body, content_type=APPLY, **options)


def table(served: Any, path: str) -> tuple[list[str], list[list[Any]]]:
    """The columns that kubectl shows of a list, and its cells without the ages at their end."""
    shown = served.request("GET", path, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).body
    return [column["name"] for column in shown["columnDefinitions"]], [row["cells"][:-1] for row in shown["rows"]]
