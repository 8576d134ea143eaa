"""Injects into the Pod templates of Jobs and AppWrappers that ask for it, so that what counts them sees the claims.

Kueue makes a Workload of the templates of a job, and not of its Pods. A Pod that is made from such a template lacks
nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from app.admission.chain import Plan, PodInjector, audit_text
from app.admission.pods import Pod, pod_from
from app.admission.review import Request, written_object
from app.appwrappers.model import APP_WRAPPERS
from app.appwrappers.podsets.inference import counted, written_templates
from app.appwrappers.podsets.paths import steps
from app.errors import Denied
from app.kube.resources import JOBS
from app.networks.places import INJECT_TEMPLATE, misplaced
from app.pace import at_pace
from app.wire import JSON, pointer

MOST_TEMPLATES = 64
"""Of one AppWrapper; a Workload of Kueue has fewer podSets."""
_READ = ("metadata", "spec")
_REASON = "UnreadablePodTemplate"
_KINDS = {(resource.group, resource.kind): resource for resource in (JOBS, APP_WRAPPERS)}


class TemplateInjector:
    """`injectors` are those that inject into Pods, in their order. Neutral to objects that do not ask for it."""

    name = "pod-templates"

    def __init__(self, injectors: Sequence[PodInjector]) -> None:
        self._injectors = injectors

    def inject(self, request: Request, plan: Plan) -> Awaitable[None] | None:
        """Raises Denied where the author of a template must act; the message names the template."""
        if request.operation != "CREATE" or (request.kind.group, request.kind.kind) not in _KINDS:
            return None
        metadata = request.metadata
        if "true" not in (metadata.labels.get(INJECT_TEMPLATE), metadata.annotations.get(INJECT_TEMPLATE)):
            return None
        obj = written_object(request, reason=_REASON)
        if obj is None:
            return None
        pods: dict[str, Pod] = {}
        templates = templates_of(obj)
        homes = tuple(where.removeprefix("/").replace("/", ".") for where in templates)
        plan.warnings += (
            finding.text for finding in misplaced(obj.get("metadata"), "metadata", obj["kind"], templates=homes)
        )
        for where, template in templates.items():
            with _named(where):
                pods[where] = pod_from({key: template[key] for key in _READ if template.get(key) is not None})
        return self._inject(pods, request.namespace, plan)

    async def _inject(self, pods: Mapping[str, Pod], namespace: str, plan: Plan) -> None:
        for where, pod in pods.items():
            planned = Plan()
            with _named(where):
                await self._plan(pod, namespace, planned)
            _take_over(planned, where, plan)
            await asyncio.sleep(0)  # each may be as large as a whole review

    async def _plan(self, pod: Pod, namespace: str, plan: Plan) -> None:
        for injector in self._injectors:
            waiting = await at_pace(partial(injector.inject_pod, pod, namespace=namespace, plan=plan))
            if waiting is not None:
                await waiting


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Has a denial name the template."""
    try:
        yield
    except Denied as denial:
        text = f"{where.removeprefix('/').replace('/', '.')}: {denial}"
        raise Denied(text, reason=denial.reason, code=denial.code) from denial


def templates_of(obj: JSON) -> dict[str, JSON]:
    """The Pod templates by JSON Pointer. Where there is none, other checks refuse the object.

    Raises Denied for more than `MOST_TEMPLATES`.
    """
    spec = obj.get("spec")
    components = spec.get("components") if isinstance(spec, dict) else None
    if isinstance(components, list):
        several = sum(counted(component) for component in components if isinstance(component, dict))
        if several > MOST_TEMPLATES:
            bound = f"want at most {MOST_TEMPLATES} Pod templates to inject into, got {several}"
            raise Denied(f"spec.components: {bound}", reason="TooManyTemplates")
    return dict(_templates_of(obj))


def _templates_of(obj: JSON) -> Iterator[tuple[str, JSON]]:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    if (obj.get("apiVersion"), obj.get("kind")) != (APP_WRAPPERS.api_version, APP_WRAPPERS.kind):
        if isinstance(spec.get("template"), dict):
            yield "/spec/template", spec["template"]
        return
    components = spec.get("components")
    for index, component in enumerate(components if isinstance(components, list) else ()):
        try:
            found = written_templates(component)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        for path, template in found:
            yield pointer("spec", "components", index, "template", *steps(path)), template


def _take_over(planned: Plan, where: str, plan: Plan) -> None:
    """What was planned for the template at `where`, as a plan for the whole object.

    Of metadata, annotations are planned, and only for a template that has labels or annotations.
    """
    field = where.removeprefix("/").replace("/", ".")
    plan.patch.nest(planned.patch, where)
    plan.warnings += [f"{field}: {warning}" for warning in planned.warnings]
    for kind, amount in planned.injected.items():
        plan.count(kind, amount)
    if not planned.patch.operations:
        plan.skip(planned.reason, planned.message)
        return
    for key, text in planned.audit.items():
        plan.audit[key] = text if key == "decision" else audit_text([*filter(None, [plan.audit.get(key)]), text])
    plan.reason, plan.message = planned.reason, ""
