"""What a UVS object asks for in the infra cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.explain.model import Manifest
from app.explain.rendering import Line, dump
from app.explain.rules import UNKNOWN_TENANT
from app.placement.model import PlacementOptions
from app.tenancy.gateway.confining import Confinement
from app.wire import JSON
from app.workloads.model import MIRROR, named_manifest, tenant_namespace
from app.workloads.templates.bounds import at, member


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


def text_of(request: Requested) -> Iterator[Line]:
    """As `berth explain` prints an object that would be admitted."""
    yield Line(f"{request.manifest.subject}: {request.verdict}", "green")
    affinity = at(request.made, "spec.affinity") or at(request.made, "spec.template.spec.affinity")
    if affinity:
        yield from (Line(f"    {line}", "cyan") for line in dump({"affinity": affinity}).splitlines())


def object_of(request: Requested) -> JSON:
    """As its JSON answer has it. Contents of Secrets are left out; annotations of kubectl repeat them."""
    made = request.made
    if made is not None and made["kind"] == "Secret":
        metadata = {field: value for field, value in made["metadata"].items() if field != "annotations"}
        made = {field: value for field, value in made.items() if field not in ("data", "stringData")}
        made = {**made, "metadata": metadata}
    return {**request.manifest.reference, "allowed": not request.refused, "message": request.verdict, "object": made}
