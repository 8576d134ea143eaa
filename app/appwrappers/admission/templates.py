"""Pod templates in the components of an AppWrapper: what is wrong with one, and which are not counted. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.appwrappers.kueue.templates import topology_request
from app.appwrappers.model import APP_WRAPPER, APP_WRAPPERS
from app.appwrappers.podsets.inference import is_known, pod_sets_of, template_of
from app.appwrappers.podsets.paths import PathError
from app.appwrappers.podsets.ray import runs_elsewhere, submits_elsewhere
from app.kinds.shapes import ShapeError, decode_builtin
from app.networks.places import INJECT_TEMPLATE, misplaced
from app.pace import step
from app.wire import JSON

_NESTING = 64
_SUBMITTER = (
    "the Pod that submits the job to another cluster is not counted: take submissionMode HTTPMode, or a "
    "submitterPodTemplate with podSets of path template.spec.submitterPodTemplate"
)
NO_TEMPLATE = "path does not refer to a v1.PodSpecTemplate"


def template_problems(template: JSON, path: str, field: str, name: str, unknown: list[str]) -> Iterator[str]:
    """What is wrong with the Pod template at a path. The fields of a Pod's spec that are not known go to `unknown`."""
    try:
        decoded, fields = _decoded(template_of(template, path))
    except PathError as error:
        yield f"{field}: {NO_TEMPLATE}: {error}"
        return
    except ShapeError as error:
        yield f"{field}: {NO_TEMPLATE}: {path}.{error.field}: {error.fault}"
        return
    unknown += [f"{path}.{below}" for below in fields]
    if not decoded["spec"].get("containers"):
        yield f"{field}: {NO_TEMPLATE}: '{path}.spec' has no containers"
        return
    metadata = decoded.get("metadata") or {}
    if (metadata.get("labels") or {}).get(APP_WRAPPER, name) != name:
        yield f"{field}: {path}.metadata.labels[{APP_WRAPPER}] is written by the controller: leave it out"
    try:
        topology_request(metadata.get("annotations") or {}, {})
    except ValueError as error:
        yield f"{field}: {path}.{error}"


def makes_pods(component: JSON) -> bool:
    """Whether Pods are made of the component, as far as can be seen; it may be wrong in any way."""
    template = component.get("template")
    seen = bool(component.get("podSets")) or any(templates_in(template, "template"))
    return seen or (isinstance(template, dict) and submits_elsewhere(template))


def missing_pod_sets(components: list[JSON]) -> str:
    """What can be done where no component has a podSet, after a colon; "" for what needs no hint."""
    if not any(runs_elsewhere(component["template"]) for component in components):
        return ""
    return (
        ": the job of a RayJob with clusterSelector runs in another cluster: take the RayCluster into the same "
        "AppWrapper, or a rayClusterSpec in place of clusterSelector, or declare podSets for its submitterPodTemplate"
    )


def uncounted(spec: JSON) -> Iterator[str]:
    """A warning for each component that makes Pods and has no podSets: Kueue counts none of its Pods."""
    for index, component in enumerate(spec["components"]):
        template = component["template"]
        if pod_sets_of(component):
            continue
        path = f"spec.components[{index}]"
        if submits_elsewhere(template):
            yield f"{path}: {_SUBMITTER}"
        elif not is_known(template) and (place := next(templates_in(template, "template"), "")):
            problem = f"{template['kind']} is not known, so its Pods are not counted"
            yield f"{path}.podSets: {problem}: declare podSets, such as path {place}"


def misplaced_keys(obj: JSON) -> Iterator[str]:
    """A warning for each key about networks that no Pod gets: of the AppWrapper, and of what it wraps."""
    yield from (finding.text for finding in misplaced(obj.get("metadata"), "metadata", APP_WRAPPERS.kind))
    for index, component in enumerate(obj["spec"]["components"]):
        where, template = f"spec.components[{index}]", component["template"]
        homes = tuple(f"{where}.{pod_set.path}" for pod_set in pod_sets_of(component))
        findings = misplaced(template.get("metadata"), f"{where}.template.metadata", template["kind"], templates=homes)
        for finding in findings:
            yield finding.text + (": take it to the AppWrapper" if finding.key == INJECT_TEMPLATE else "")


def _decoded(template: JSON) -> tuple[JSON, list[str]]:
    metadata = template.get("metadata")
    if isinstance(metadata, dict):  # what else there is would be compared with what a Pod's own metadata may have
        metadata = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    return decode_builtin("Pod", "v1", {"metadata": metadata, "spec": template["spec"]})


def templates_in(value: Any, path: str, depth: int = 0) -> Iterator[str]:
    """The paths of what looks like Pod templates."""
    step()
    if depth > _NESTING:
        return
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list) and spec["containers"]:
            yield path
            return
        for field, below in value.items():
            yield from templates_in(below, f"{path}.{field}", depth + 1)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from templates_in(below, f"{path}[{index}]", depth + 1)
