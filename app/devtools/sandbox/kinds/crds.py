"""CustomResourceDefinitions: their status, and the resources that they make a cluster serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.kinds.builtin import ApiResource
from app.devtools.sandbox.schemas.embedded import has_embedded
from app.devtools.sandbox.schemas.rules import rule_tree

if TYPE_CHECKING:
    from app.wire import JSON


def begin_crd(crd: JSON) -> None:
    """Set the initial status. The sandbox has no controller that accepts names: `establish` follows at once."""
    crd["status"] = {
        "conditions": [],
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": [version["name"] for version in crd["spec"].get("versions") or [] if version.get("storage")],
    }


def establish(crd: JSON, now: str) -> JSON:
    """The status of a definition that is served."""
    condition = {"status": "True", "lastTransitionTime": now}
    stored = list((crd.get("status") or {}).get("storedVersions") or [])
    for version in crd["spec"]["versions"]:
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    known = {entry["type"]: entry for entry in (crd.get("status") or {}).get("conditions") or []}
    names = {"type": "NamesAccepted", "reason": "NoConflicts", "message": "no conflicts found"}
    established = {
        "type": "Established",
        "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted",
    }
    usual = [known.pop(entry["type"], None) or {**entry, **condition} for entry in (names, established)]
    return {
        "conditions": [*usual, *known.values()],
        "acceptedNames": crd["spec"]["names"],
        "storedVersions": stored,
    }


def resources_of(crd: JSON) -> list[ApiResource]:
    """One resource per served version."""
    spec = crd["spec"]
    names = spec["names"]
    rows: list[ApiResource] = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        columns = version.get("additionalPrinterColumns")
        subresources = version.get("subresources") or {}
        scale = subresources.get("scale") or {}
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        group, label = spec["group"], version["name"]
        warning = version.get("deprecationWarning") or f"{group}/{label} {names['kind']} is deprecated"
        rows.append(
            ApiResource(
                group,
                label,
                names["plural"],
                names["kind"],
                spec["scope"] == "Namespaced",
                singular=names["singular"],
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=frozenset(subresources.keys() & {"status", "scale"}),
                scale=(
                    scale.get("specReplicasPath", "").removeprefix("."),
                    scale.get("statusReplicasPath", "").removeprefix("."),
                    scale.get("labelSelectorPath", "").removeprefix("."),
                ),
                generation=True,
                schema=schema,
                rules=rule_tree(schema),
                embeds=has_embedded(schema),
                columns=tuple(columns) if columns else None,
                custom=True,
                list_kind=names["listKind"],
                warning=warning if version.get("deprecated") else "",
                selectable=tuple(
                    (field.get("jsonPath") or "").removeprefix(".") for field in version.get("selectableFields") or []
                ),
            )
        )
    return rows
