"""What an AppWrapper or a UVS object of a manifest means. Pure.

Of an AppWrapper: its podSets, what they ask for together, and who would be asked for what. Of a UVS object: what it
asks for in the infra cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from app.appwrappers.admission.components import component_problems
from app.appwrappers.admission.names import annotation_warnings, label_problems, mapping, name_problems
from app.appwrappers.admission.rights import kind_of, of_creator
from app.appwrappers.admission.templates import uncounted
from app.appwrappers.kueue.templates import asked_of
from app.appwrappers.model import MOST_POD_SETS, pod_set_name, queue_of
from app.appwrappers.options import FaultTolerance
from app.appwrappers.podsets.inference import PodSet, pod_sets_of
from app.explain.model import Manifest
from app.explain.rendering import Line, dump
from app.explain.rules import UNKNOWN_TENANT
from app.kinds.requests import Amounts
from app.kube.resources import PODS
from app.placement.model import PlacementOptions
from app.tenancy.gateway.confining import Confinement
from app.wire import JSON
from app.workloads.model import MIRROR, named_manifest, tenant_namespace
from app.workloads.templates.bounds import at, member


@dataclass(frozen=True, slots=True)
class Wrapped:
    """One AppWrapper. `pod_sets` are name and podSet, `rights` what users need.

    `asked` is what Kueue would count, without the overhead of a RuntimeClass: only a cluster knows that. Without
    problems it would be admitted, as far as no rights are missing.
    """

    manifest: Manifest
    queue: str
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    pod_sets: tuple[tuple[str, PodSet], ...] = ()
    asked: Amounts | None = None
    rights: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        if self.problems:
            return f"would be denied: {'; '.join(self.problems)}"
        return f"would be queued in {self.queue}" if self.queue else "would run at once"


def explained(manifest: Manifest) -> Wrapped:
    """What the webhook finds in it, but for what only a cluster knows: rights, and the operator's configuration."""
    obj = manifest.obj
    metadata, spec, namespace = mapping(obj, "metadata"), obj.get("spec"), manifest.namespace
    labels = mapping(metadata, "labels")
    fields: list[str] = []
    problems = list(
        component_problems(spec, name=manifest.name, namespace=namespace, most=MOST_POD_SETS, warnings=fields)
    )
    if problems or not isinstance(spec, dict):
        return Wrapped(manifest, "", (*problems, *name_problems(metadata, 1), *label_problems(labels)))
    pod_sets = [(component, pod_set) for component in spec["components"] for pod_set in pod_sets_of(component)]
    problems = [*name_problems(metadata, len(pod_sets)), *label_problems(labels)]
    return Wrapped(
        manifest,
        queue_of(obj),
        tuple(problems),
        (
            *annotation_warnings(mapping(metadata, "annotations"), FaultTolerance()),
            *uncounted(spec),
            *fields,
        ),
        tuple((pod_set_name(manifest.name, number), pod_set) for number, (_, pod_set) in enumerate(pod_sets)),
        asked_of(spec["components"]),
        tuple(dict.fromkeys(_rights(spec["components"], namespace))),
    )


def _rights(components: Sequence[JSON], namespace: str) -> Iterator[str]:
    """By kind, as a manifest says it: only a cluster knows the resource."""
    for index, right in of_creator(components, {}, namespace, strict=True):
        kind = kind_of(components[index])
        strict = "" if right.verb == "create" and right.resource != PODS.plural else " (strict)"
        what = f"{kind.kind} ({kind.api_version})" if kind and right.resource != PODS.plural else "Pod (v1)"
        yield f"{right.verb} {what} in {namespace}{strict}"


def text_of(wrapper: Wrapped) -> Iterator[Line]:
    """As `berth explain` prints it."""
    yield Line(f"{wrapper.manifest.subject}: {wrapper.verdict}", "red" if wrapper.problems else "green")
    for name, pod_set in wrapper.pod_sets:
        count = f"{pod_set.replicas} Pod" + ("" if pod_set.replicas == 1 else "s")
        yield Line(f"  podSet {name}: {count} of {pod_set.path}", "cyan")
    if wrapper.asked:
        amounts = ", ".join(f"{name} {_said(amount)}" for name, amount in sorted(wrapper.asked.items()))
        yield Line(f"  requested in all: {amounts}")
    for right in wrapper.rights:
        yield Line(f"  its user is asked for: {right}")
    for warning in wrapper.warnings:
        yield Line(f"  warning: {warning}", "yellow")


def object_of(wrapper: Wrapped) -> JSON:
    """As its JSON answer has it."""
    return {
        **wrapper.manifest.reference,
        "allowed": not wrapper.problems,
        "message": wrapper.verdict,
        "warnings": list(wrapper.warnings),
        "queue": wrapper.queue,
        "podSets": [{"name": name, **pod_set.status} for name, pod_set in wrapper.pod_sets],
        "requests": {name: _said(amount) for name, amount in (wrapper.asked or {}).items()},
        "rights": list(wrapper.rights),
    }


def _said(amount: Decimal) -> str:
    return f"{amount.normalize():f}"


@dataclass(frozen=True, slots=True)
class Requested:
    """`made` is the object as the gateway would write it, but for its marks; None where nothing is made.

    `refused` says why it would be refused.
    """

    manifest: Manifest
    refused: str = ""
    made: JSON | None = None

    @property
    def verdict(self) -> str:
        if self.refused:
            return f"would be refused: {self.refused}"
        if self.made is None:
            return "shows a companion; nothing is made of it"
        metadata = self.made["metadata"]
        where = ", on DPUs of the tenant" if self.made["kind"] in ("Pod", "DaemonSet") else ""
        return f"makes {self.made['kind']} {metadata['namespace']}/{metadata['name']} in the infra cluster{where}"


def requested(manifest: Manifest, refused: str, placement: PlacementOptions) -> Requested:
    """`refused` is what `/validate` says against the object, "" for nothing."""
    if not refused and MIRROR in (at(manifest.obj, "metadata.labels") or {}):
        return Requested(manifest)
    try:
        body = {} if refused else named_manifest(manifest.obj["spec"], manifest.name)
    except ValueError as error:
        refused = str(error)
    if refused:
        return Requested(manifest, refused)
    given, namespace = body["metadata"], tenant_namespace(UNKNOWN_TENANT)
    kept = {part: given[part] for part in ("labels", "annotations") if member(given, part)}
    body = {**body, "metadata": {"name": given["name"], "namespace": namespace, **kept}}
    return Requested(manifest, made=Confinement(UNKNOWN_TENANT, placement).confined(body))


def request_text(request: Requested) -> Iterator[Line]:
    """As `berth explain` prints an object that would be admitted."""
    yield Line(f"{request.manifest.subject}: {request.verdict}", "green")
    affinity = at(request.made, "spec.affinity") or at(request.made, "spec.template.spec.affinity")
    if affinity:
        yield from (Line(f"    {line}", "cyan") for line in dump({"affinity": affinity}).splitlines())


def request_object(request: Requested) -> JSON:
    """As its JSON answer has it. Contents of Secrets are left out; annotations of kubectl repeat them."""
    made = request.made
    if made is not None and made["kind"] == "Secret":
        metadata = {field: value for field, value in made["metadata"].items() if field != "annotations"}
        made = {field: value for field, value in made.items() if field not in ("data", "stringData")}
        made = {**made, "metadata": metadata}
    return {**request.manifest.reference, "allowed": not request.refused, "message": request.verdict, "object": made}
