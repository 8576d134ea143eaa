"""Keys of labels and annotations that are nearly those that Berth or Multus read. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from app.admission.pods import INJECT
from app.claims.injection.templates import INJECT_TEMPLATE
from app.claims.model import CLAIM_TEMPLATE_HASH, CLAIM_TEMPLATE_MARK
from app.claims.services.model import ASKING, SELECTOR
from app.explain.manifests import CHECKED, TEMPLATES, Manifests
from app.explain.model import Finding, Manifest
from app.networks.claim_sources import CLAIM_TEMPLATE, DEVICE_CLASS
from app.networks.model import DEFAULT_NETWORK, NETWORKS, NODE_SELECTOR, RESOURCE_NAME, RESOURCES_CONTAINER
from app.placement.model import DPU_OF_HOST, TENANT_LABEL
from app.rmd.model import TEMPLATE_HASH
from app.text import closest, cut
from app.wire import JSON
from app.workloads.model import RESOURCE_OWNER, RULE_OWNER
from app.workloads.templates.marks import at

_KNOWN = (
    *(NETWORKS, DEFAULT_NETWORK, RESOURCE_NAME, NODE_SELECTOR, RESOURCES_CONTAINER, DPU_OF_HOST, TENANT_LABEL, INJECT),
    *(
        INJECT_TEMPLATE,
        DEVICE_CLASS,
        CLAIM_TEMPLATE,
        CLAIM_TEMPLATE_MARK,
        CLAIM_TEMPLATE_HASH,
        *sorted(ASKING),
        SELECTOR,
    ),
    *("k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status"),
    *(RESOURCE_OWNER, RULE_OWNER, TEMPLATE_HASH),
)
"""Keys that authors write, and those near them that others write."""
_NAMES: dict[str, list[str]] = {}
for _domain, _, _name in (one.partition("/") for one in _KNOWN):
    _NAMES.setdefault(_domain, []).append(_name)
_MADE = ("spec.template.metadata", "spec.object.metadata")
"""Of what rules and UVS objects make."""
_MOST = 20
"""Findings of one object."""


def key_findings(manifests: Manifests) -> Iterator[Finding]:
    """Warnings: of objects, of the Pod templates in them, of what rules and UVS objects make."""
    for given in manifests.given:
        for path in ("metadata", *_MADE) if given.kind in CHECKED else ("metadata",):
            yield from _of_metadata(given, at(given.obj, path), path)
    for one in manifests.pods:
        if path := one.path or ".".join(TEMPLATES[one.owner.kind]):
            yield from _of_metadata(one.owner, one.pod["metadata"], f"{path}.metadata")


def near_key(key: str) -> str:
    """The known key that this one nearly is; "" for a known one, and where none is near."""
    domain, _, name = key.partition("/")
    if key in _KNOWN or not name:
        return ""
    home = closest(domain, _NAMES)
    meant = closest(name, _NAMES.get(home, ()))
    return f"{home}/{meant}" if meant else ""


def _of_metadata(given: Manifest, metadata: Any, path: str) -> Iterator[Finding]:
    found = (
        Finding("warning", "UnknownKey", "a key that is not read", given, f"{path}.{part}[{cut(key)}]", meant)
        for part in ("labels", "annotations")
        for key in _keys(metadata, part)
        if (meant := near_key(key))
    )
    yield from islice(found, _MOST)


def _keys(metadata: Any, part: str) -> JSON:
    entries = at(metadata, part)
    return entries if isinstance(entries, dict) else {}
