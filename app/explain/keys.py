"""Keys of labels and annotations that are nearly those that Berth or Multus read, and those in another place. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from app.admission.injected import INJECTED_BY
from app.admission.pods import INJECT
from app.appwrappers.model import APP_WRAPPERS
from app.appwrappers.options import KNOWN as OPTIONS
from app.appwrappers.podsets.inference import inferred
from app.claims.model import CLAIM_TEMPLATE_HASH, CLAIM_TEMPLATE_MARK
from app.explain.fields import objects_in
from app.explain.manifests import CHECKED, TEMPLATES, Manifests, is_foreign
from app.explain.model import Finding, Manifest
from app.explain.templates import pod_templates
from app.kube.resources import DEVICE_CLASSES, NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIM_TEMPLATES, SERVICES
from app.networks.model import (
    CLAIM_TEMPLATE,
    DEFAULT_NETWORK,
    DEVICE_CLASS,
    NETWORKS,
    NODE_SELECTOR,
    RESOURCE_NAME,
    RESOURCES_CONTAINER,
)
from app.networks.places import BARE, EITHER, INJECT_TEMPLATE, PLACES, Place, misplaced
from app.placement.model import DPU_OF_HOST, TENANT_LABEL
from app.rmd.model import L3_CACHE_WAYS, TEMPLATE_HASH
from app.rmd.pods import SETTINGS
from app.services.model import ASKING, NETWORK, SELECTOR
from app.text import closest, cut, quoted
from app.wire import JSON, mapping
from app.workloads.model import RESOURCE_OWNER, RULE_OWNER
from app.workloads.templates.bounds import at, each

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
    *(RESOURCE_OWNER, RULE_OWNER, TEMPLATE_HASH, INJECTED_BY),
)
"""Keys that authors write, and those near them that others write."""
_NAMES: dict[str, list[str]] = {}
for _domain, _, _name in (key.partition("/") for key in _KNOWN):
    _NAMES.setdefault(_domain, []).append(_name)
_PLACES = {
    **PLACES,
    DPU_OF_HOST: Place((PODS.kind,)),
    CLAIM_TEMPLATE_MARK: Place((DEVICE_CLASSES.kind, RESOURCE_CLAIM_TEMPLATES.kind), EITHER),
    **dict.fromkeys((*ASKING, SELECTOR), Place((SERVICES.kind,))),
    **dict.fromkeys(OPTIONS, Place((APP_WRAPPERS.kind,))),
}
_BARE = frozenset(_PLACES)
_OF_SERVICES = "k8s.v1.cni.cncf.io/service-network"
"""Annotation on a Service, by users of multus-service: its network. Berth does not read it: `berth.dev/network` takes
its place.
"""
_WITHOUT_KEYS = ("", "metadata", "spec")
"""Fields, and the object itself, in which people forget `metadata` or `annotations`."""
_SELECTING = frozenset({*EITHER, "matchLabels", "nodeSelector", "data", "stringData", "binaryData"})
"""Fields whose members are no fields."""
_RUNS = frozenset({"container", "script", "containerSet", "data", "resource", "http"})
"""Members of a template of an Argo Workflow that makes Pods."""
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_OF_CONTAINER = "container."
"""How the names of keys begin that are for a container: RDT and block I/O classes, plugins of NRI."""
_BY_NAME = frozenset(
    {"container.apparmor.security.beta.kubernetes.io", "container.seccomp.security.alpha.kubernetes.io"}
)
"""Domains of keys whose name is that of a container."""
_OWN_SETTINGS = tuple(setting for setting in SETTINGS if setting != "policy")
"""Without the one whose word is common in annotations of others."""
_NOT_READ = "a key that is not read"
_MOST = 20
"""Findings of one object."""
_NESTING = 64


def key_findings(manifests: Manifests) -> Iterator[Finding]:
    """Warnings: of objects, of the Pod templates in them, of what rules, UVS objects and AppWrappers make."""
    for given in manifests.given:
        yield from islice(_of_object(given, given.obj, ""), _MOST)


def near_key(key: str) -> str:
    """The known key that this one nearly is; "" for a known one, and where none is near."""
    domain, _, name = key.partition("/")
    if key in _KNOWN or not name:
        return ""
    home = closest(domain, _NAMES)
    meant = closest(name, _NAMES.get(home, ()))
    return f"{home}/{meant}" if meant else ""


def _of_object(given: Manifest, obj: JSON, path: str) -> Iterator[Finding]:
    """Of an object that stands at a path in the one that was given."""
    kind, templates, inner = _kind_of(obj), _templates(obj), dict(objects_in(obj))
    kinds = {"metadata": kind, **dict.fromkeys((f"{where}.metadata" for where in templates if where), PODS.kind)}
    kinds |= {f"{where}.metadata": "Job" for where in _job_templates(obj, templates)}
    settings = (annotation for template in templates.values() for annotation in _settings(template))
    places = {**_PLACES, **dict.fromkeys(settings, Place((PODS.kind,)))}
    whole = _is_known(obj)
    for where, holder in _holders(obj, "", inner):
        if where in kinds or whole or _is_of_an_owner(where, obj, templates):
            bare = where.rpartition(".")[2] in _WITHOUT_KEYS or where in templates
            homes = tuple(f"{path}{home}".rstrip(".") for home in _below(where, templates))
            parts, place = (*EITHER, BARE) if bare else EITHER, f"{path}{where}".rstrip(".")
            for misplacement in misplaced(
                holder, place, kinds.get(where, ""), templates=homes, places=places, parts=parts
            ):
                meant = NETWORK if (misplacement.key, kind) == (NETWORKS, SERVICES.kind) else ""
                yield Finding("warning", "MisplacedKey", misplacement.fault, given, misplacement.field, meant)
            yield from _of_keys(given, holder, f"{path}{where}")
    for where, template in templates.items():
        yield from _of_containers(given, template, f"{path}{where}".rstrip("."))
    for where, made in inner.items():
        if isinstance(made, dict):
            yield from _of_object(given, made, f"{path}{where}.")


def _of_containers(given: Manifest, template: Any, path: str) -> Iterator[Finding]:
    """Annotations of a Pod that are for one of its containers, and name one that it has not.

    Of settings of RMD, where a container asks for cache ways, the webhook says so with its backend.
    """
    containers = [container for kind in _CONTAINERS for _, container in each(template, f"spec.{kind}", "")]
    names = [name for container in containers if isinstance(name := container.get("name"), str)]
    asks = any(L3_CACHE_WAYS in mapping(at(container, "resources.limits")) for container in containers)
    annotations = at(template, "metadata.annotations")
    for key, value in annotations.items() if isinstance(annotations, dict) and names else ():
        name = _container_in(key, value, asks=asks)
        if name and name not in names:
            field = f"{path}.metadata.annotations[{cut(key)}]".lstrip(".")
            message = f"there is no container {quoted(name)}"
            yield Finding("warning", "UnknownContainer", message, given, field, closest(name, names))


def _container_in(key: str, value: Any, *, asks: bool) -> str:
    """The name of a container in the key, or the value, of an annotation; "" where there is none."""
    if key == RESOURCES_CONTAINER:
        return value if isinstance(value, str) else ""
    domain, _, name = key.partition("/")
    if domain in _BY_NAME:
        return name
    if name.startswith(_OF_CONTAINER):
        return name.removeprefix(_OF_CONTAINER)
    setting = next((setting for setting in _OWN_SETTINGS if key.endswith(f"_{setting}")), "")
    return key.removesuffix(f"_{setting}") if setting and not asks and "/" not in key else ""


def _kind_of(obj: JSON) -> str:
    """With the group, where the kind only has the name of one that is meant by it."""
    kind, group = str(obj.get("kind")), str(obj.get("apiVersion") or "").rpartition("/")[0]
    return f"{kind}.{group}" if is_foreign(obj) else kind


def _is_known(obj: JSON) -> bool:
    """Whether all places are known in which an object has metadata."""
    kind = _kind_of(obj)
    return kind in TEMPLATES or kind in CHECKED or kind in (SERVICES.kind, NETWORK_ATTACHMENTS.kind)


def _job_templates(obj: JSON, templates: JSON) -> Iterator[str]:
    """The paths of what Jobs are made of."""
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    if obj.get("kind") == "CronJob" or (group, obj.get("kind")) == ("jobset.x-k8s.io", "JobSet"):
        yield from (path.removesuffix(".spec.template") for path in templates)


def _below(where: str, templates: Iterable[str]) -> list[str]:
    """The templates of what this is the metadata of; all where there is none."""
    before = where.removesuffix("metadata").rstrip(".")
    paths = [path for path in templates if path == before or path.startswith((f"{before}.", f"{before}["))]
    return paths or list(templates)


def _is_of_an_owner(where: str, obj: JSON, templates: JSON) -> bool:
    """Whether it is the metadata of what makes Pods of these templates, or in one, and no Pod gets it.

    Kinds that are not known may give annotations to Pods that stand beside a template.
    """
    before = where.removesuffix("metadata").rstrip(".")
    if any(where == path or where.startswith(f"{path}.") for path in templates if path):
        return True
    above = any(path.startswith((f"{before}.", f"{before}[")) for path in templates)
    return bool(before) and above and (before != where or bool(inferred(obj)))


def _templates(obj: JSON) -> dict[str, Any]:
    """The Pod templates in an object, a Pod at ""; those of an AppWrapper are in its components."""
    kind = str(obj.get("kind"))
    if kind in TEMPLATES and not is_foreign(obj):
        where = ".".join(TEMPLATES[kind])
        return {where: at(obj, where)}
    if str(obj.get("apiVersion")).startswith("argoproj.io/"):
        # Argo Workflows make Pods of the containers in templates, and have a place for the metadata of all.
        where = "spec.workflowSpec" if kind == "CronWorkflow" else "spec"
        if steps := [step for step in each(obj, f"{where}.templates", "") if not _RUNS.isdisjoint(step[1])]:
            return {path.removeprefix("."): step for path, step in steps}
    with suppress(ValueError):  # said where the Pods are looked for
        return {} if kind == APP_WRAPPERS.kind else dict(pod_templates(obj))
    return {}


def _settings(template: Any) -> Iterator[str]:
    """The annotations by which the containers of a Pod may ask for something of RMD."""
    for kind in ("containers", "initContainers"):
        for _, container in each(template, f"spec.{kind}", ""):
            yield from (f"{container.get('name')}_{setting}" for setting in SETTINGS)


def _holders(value: Any, path: str, inner: JSON, depth: int = 0) -> Iterator[tuple[str, JSON]]:
    """What has labels or annotations, with its path; not in the objects within this one, which are looked at alone."""
    if path in inner or depth > _NESTING:
        return
    if isinstance(value, dict):
        if any(isinstance(value.get(part), dict) for part in EITHER) or not _BARE.isdisjoint(value):
            yield path, value
        for field, below in value.items():
            if field in _SELECTING:
                continue
            yield from _holders(below, f"{path}.{field}" if path else field, inner, depth + 1)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _holders(below, f"{path}[{index}]", inner, depth + 1)


def _of_keys(given: Manifest, metadata: JSON, path: str) -> Iterator[Finding]:
    for part in EITHER:
        entries = metadata.get(part)
        for key in entries if isinstance(entries, dict) else ():
            where = f"{path}.{part}[{cut(key)}]"
            if key == _OF_SERVICES:
                message = f"of multus-service, and not read here, where {SELECTOR} takes the place of spec.selector"
                yield Finding("warning", "UnknownKey", message, given, where, NETWORK)
            elif meant := near_key(key):
                yield Finding("warning", "UnknownKey", _NOT_READ, given, where, meant)
