"""The Pod templates in objects of kinds that keep them in places of their own. Pure, for any JSON.

AppWrappers say where, or it follows from the kind of what they wrap; of other kinds it is known
(`app.appwrappers.podsets`) or can be seen: what has a name that ends with `template`, and containers. Of a machine of
KubeVirt the Pod is made here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.appwrappers.admission.templates import templates_in
from app.appwrappers.model import APP_WRAPPERS
from app.appwrappers.podsets.inference import written_templates
from app.appwrappers.podsets.paths import pod_template_at
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.wire import JSON
from app.workloads.templates.bounds import at, each

_ROOT = "template."
_MACHINES = {
    ("kubevirt.io", "VirtualMachine"): "spec.template",
    ("kubevirt.io", "VirtualMachineInstance"): "",
    ("kubevirt.io", "VirtualMachineInstanceReplicaSet"): "spec.template",
    ("pool.kubevirt.io", "VirtualMachinePool"): "spec.virtualMachineTemplate.spec.template",
}
"""Where kinds of KubeVirt keep the machine that a virt-launcher Pod is made for."""
_BUILT_IN = frozenset({"", "apps", "batch", "extensions", "autoscaling", "policy"})
"""Groups of Kubernetes without a dot; those with one end with .k8s.io."""


def pod_templates(obj: JSON) -> Iterator[tuple[str, JSON]]:
    """Each template with its path in the object. Raises ValueError where one cannot be found or counted."""
    if obj.get("kind") == APP_WRAPPERS.kind:
        for path, component in components_of(obj):
            template = component.get("template")
            if isinstance(template, dict) and all(isinstance(template.get(key), str) for key in ("apiVersion", "kind")):
                templates = written_templates(component) or _seen(template)
                yield from ((f"{path}.{where}", pod_template) for where, pod_template in templates)
    elif (machine := _MACHINES.get(_group_kind(obj))) is not None:
        yield machine, _launcher(at(obj, machine))
    elif not _is_built_in(obj):
        templates = written_templates({"template": obj}) or _seen(obj)
        yield from ((path.removeprefix(_ROOT), pod_template) for path, pod_template in templates)


def _launcher(template: Any) -> JSON:
    """The part of a virt-launcher Pod that says its networks, as KubeVirt makes it of a machine's."""
    machine = template if isinstance(template, dict) else {}
    names = {True: list[str](), False: list[str]()}
    for _, network in each(machine, "spec.networks", ""):
        name = at(network, "multus.networkName")
        if isinstance(name, str) and name:
            names[at(network, "multus.default") is True].append(name)
    given = at(machine, "metadata.annotations")
    annotations = {**(given if isinstance(given, dict) else {})}
    annotations |= {
        key: ",".join(networks)
        for key, networks in ((DEFAULT_NETWORK, names[True]), (NETWORKS, names[False]))
        if networks
    }
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "compute"}]}}


def _group_kind(obj: JSON) -> tuple[str, str]:
    return str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind"))


def components_of(wrapper: JSON) -> Iterator[tuple[str, JSON]]:
    """The components of an AppWrapper that are objects, with their paths."""
    spec: Any = wrapper.get("spec")
    components = spec.get("components") if isinstance(spec, dict) else None
    for index, component in enumerate(components if isinstance(components, list) else ()):
        if isinstance(component, dict):
            yield f"spec.components[{index}]", component


def _seen(obj: JSON) -> list[tuple[str, JSON]]:
    """What looks like a Pod template, by a path with the root that those of podSets have."""
    templates = templates_in(obj, "template")
    paths = [path for path in templates if path.rpartition(".")[2].lower().endswith("template") and path != "template"]
    return [(path, pod_template_at(obj, path)) for path in paths]


def _is_built_in(obj: JSON) -> bool:
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    return group in _BUILT_IN or group.endswith(".k8s.io")
