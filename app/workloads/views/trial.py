"""View `try`: a rule as YAML, whether it would be admitted, and what it would match now. Nothing is written.

The webhook's checks and the comparison of `berth explain` decide; the lines are those that it prints.
"""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from app.doctor.catalog import plain
from app.doctor.cluster import Cluster, locate
from app.doctor.model import unchecked
from app.errors import ApiError
from app.explain.compared import ComparedWorkload, live_workloads
from app.explain.manifests import Manifests
from app.explain.model import Manifest
from app.explain.rules import Comparison, text_of
from app.kube.documents import DocumentError, parse_documents
from app.kube.names import check_dns_label
from app.kube.resources import PODS, Resource
from app.placement.settings import PlacementSettings
from app.text import printable, quoted
from app.ui.view import Asked, Model, View
from app.wire import JSON
from app.workloads.model import ADMIN_RULES, RESOURCE_TYPE, TENANT_RULES, WORKLOAD_RULES, WORKLOADS
from app.workloads.rules.problems import RuleError
from app.workloads.webhook import problems

MOST = 32 * 1024
"""Characters of a rule."""
_TURN = 200
"""Workloads that are compared in one go."""
_KINDS = {(resource.api_version, resource.kind): resource for resource in (TENANT_RULES, ADMIN_RULES, WORKLOAD_RULES)}


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What would become of a rule; `problems` say why it would be refused, or cannot be read.

    `matched` and `missed` count all workloads; `lines` tell of the first, as `berth explain` prints them. `notes` say
    what was left out.
    """

    verdict: str
    problems: tuple[str, ...] = ()
    matched: int = 0
    missed: int = 0
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Trial(Model, frozen=True, kw_only=True, rename="camel"):
    """A rule as it was sent, and what would become of it; `outcome` is null before one is sent."""

    rule: str = ""
    outcome: Outcome | None = None


async def _read(_asked: Asked) -> Trial:
    return Trial()


async def _judge(asked: Asked, text: str) -> Trial:
    return Trial(rule=text[:MOST], outcome=await _outcome(asked, text))


async def _outcome(asked: Asked, text: str) -> Outcome:
    if len(text) > MOST:
        return _refused([f"the rule has {len(text)} characters: want at most {MOST}"], "cannot be read")
    try:
        resource, obj = _rule_in(text)
    except ValueError as error:
        return _refused([str(error)], "cannot be read")
    settings = await asked.kept("placement settings", _settings)
    kind = resource.group, resource.kind
    if found := problems(obj, kind, settings.placement.policy):
        return _refused(found)
    metadata = obj["metadata"]
    manifest = Manifest("here", resource.kind, metadata["name"], metadata.get("namespace") or "", obj)
    try:
        comparison = Comparison(manifest, settings.placement)
    except RuleError as error:
        return _refused(error.problems)
    seen = PODS if resource == WORKLOAD_RULES else WORKLOADS
    try:
        workloads, notes = await asked.kept(("compared with rules", seen), partial(_gathered, seen))
    except ApiError as refusal:
        if not refusal.status or refusal.status == 401:
            raise
        return Outcome(verdict="would be admitted", notes=(unchecked(refusal).message,))
    for number, workload in enumerate(workloads):
        comparison.look_at(workload)
        if number % _TURN == 0:
            await asyncio.sleep(0)  # others have their turn
    result = comparison.done()
    return Outcome(
        verdict=result.verdict,
        matched=result.matched,
        missed=result.missed,
        lines=tuple(printable(line.text) for line in text_of(result)),
        notes=tuple(notes),
    )


def _refused(found: list[str] | tuple[str, ...], verdict: str = "would be refused") -> Outcome:
    return Outcome(verdict=verdict, problems=tuple(plain(text, 1000) for text in found))


def _rule_in(text: str) -> tuple[Resource, JSON]:
    """The one rule in a text, with what an API server fills in. Raises ValueError."""
    try:
        documents = parse_documents(text, source="line")
    except DocumentError as error:
        raise ValueError(str(error)) from error
    if len(documents) != 1:
        raise ValueError(f"want one rule, as YAML or JSON; there are {len(documents)} objects")
    obj = documents[0].content
    resource = _KINDS.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
    if resource is None:
        wanted = ", ".join(f"{kind} of {version}" for version, kind in _KINDS)
        raise ValueError(f"apiVersion, kind: want one of {wanted}")
    metadata, spec = obj.get("metadata"), obj.get("spec")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise ValueError("metadata.name: want the name of the rule")  # noqa: TRY004  a fault of the text
    namespace = metadata.get("namespace")
    if resource == TENANT_RULES or namespace is not None:
        try:
            check_dns_label(namespace if isinstance(namespace, str) else "")
        except ValueError as error:
            raise ValueError(f"metadata.namespace: {quoted(str(namespace))}: {error}") from error
    if isinstance(spec, dict):
        spec = {"resourceType": RESOURCE_TYPE, **spec}
    return resource, {**obj, "spec": spec}


async def _settings(cluster: Cluster) -> PlacementSettings:
    await locate(cluster)
    return await cluster.settings(PlacementSettings, role="controller", otherwise="webhook")


async def _gathered(resource: Resource, cluster: Cluster) -> tuple[list[ComparedWorkload], list[str]]:
    notes = list[str]()
    return [seen async for seen in live_workloads(cluster.client, resource, Manifests(), notes)], notes


VIEW = View(
    "try",
    "Try a rule",
    "Whether a rule would be admitted, which workloads it would match now, and which companions they would get. "
    "Nothing is written.",
    Trial,
    _read,
    "ui/templates/try.html",
    judge=_judge,
)
