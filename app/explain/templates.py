"""The Pod templates and attachments that objects of other kinds stand for. Pure, for any JSON.

AppWrappers say where templates are, or it follows from the kind of what they wrap; of other kinds it is known
(`app.appwrappers.podsets`) or can be seen: what has a name that ends with `template`, and containers. Of a machine of
KubeVirt the Pod is made here.

Operators make attachments of objects of their own kinds. Facts: sriov-network-operator at 249e200 (`api/v1/helper.go`
RenderNetAttDef), NVIDIA's network-operator at b06827e (`pkg/state/state_*_network.go`, `manifests/state-*-network`),
ovn-kubernetes (`pkg/clustermanager/userdefinednetwork`, RenderNetAttachDefManifest). All give an attachment the name
of the object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from app.appwrappers.admission.templates import templates_in
from app.appwrappers.model import APP_WRAPPERS
from app.appwrappers.podsets.inference import written_templates
from app.appwrappers.podsets.paths import pod_template_at
from app.kube.resources import NETWORK_ATTACHMENTS, is_built_in
from app.kube.selectors import label_selector_from_json
from app.networks.model import DEFAULT_NETWORK, NETWORKS, RESOURCE_NAME
from app.wire import JSON, decode_json, mapping
from app.wiring import NAMESPACE_NAME
from app.workloads.templates.bounds import at, each

_ROOT = "template."
_MACHINES = {
    ("kubevirt.io", "VirtualMachine"): "spec.template",
    ("kubevirt.io", "VirtualMachineInstance"): "",
    ("kubevirt.io", "VirtualMachineInstanceReplicaSet"): "spec.template",
    ("pool.kubevirt.io", "VirtualMachinePool"): "spec.virtualMachineTemplate.spec.template",
}
"""Where kinds of KubeVirt keep the machine that a virt-launcher Pod is made for."""
_SRIOV_PREFIX = "openshift.io/"
"""RESOURCE_PREFIX of sriov-network-operator, where it is not set otherwise (`hack/env.sh`)."""
_NVIDIA_PREFIX = "nvidia.com/"
_DEFAULT = "default"
Namespaces = Mapping[str, Mapping[str, str] | None]
"""Their labels, None where these are not known."""
_UNLESS = " unless its RESOURCE_PREFIX is another"


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
    return is_built_in(str(obj.get("apiVersion") or "").rpartition("/")[0])


class _Operator(NamedTuple):
    """`plugin` is that of the attachment; `homes` are its namespaces, `prefix` that of its resource, "" without one."""

    name: str
    plugin: str
    homes: Callable[[str, JSON, Namespaces], Iterator[str]]
    prefix: str = ""
    unless: str = ""
    namespaced: bool = True


def _target(namespace: str, spec: JSON, _: Namespaces) -> Iterator[str]:
    yield str(spec.get("networkNamespace") or namespace or _DEFAULT)


def _own(namespace: str, spec: JSON, _: Namespaces) -> Iterator[str]:  # noqa: ARG001  as every function of homes
    yield namespace


def _selected(_: str, spec: JSON, namespaces: Namespaces) -> Iterator[str]:
    """Of one whose labels are not known, that it is selected, unless its name says otherwise."""
    try:
        selector = label_selector_from_json(mapping(spec.get("namespaceSelector")))
    except ValueError:
        return
    by_labels = any(requirement.key != NAMESPACE_NAME for requirement in selector.requirements)
    for namespace, labels in namespaces.items():
        marks = {**(labels or {}), NAMESPACE_NAME: namespace}
        if selector.matches(marks) or (labels is None and by_labels):
            yield namespace


_SRIOV, _NVIDIA, _OVN = "sriov-network-operator", "NVIDIA's network-operator", "OVN-Kubernetes"
_OPERATORS: Mapping[tuple[str, str], _Operator] = {
    **{
        ("sriovnetwork.openshift.io", kind): _Operator(_SRIOV, plugin, _target, _SRIOV_PREFIX, _UNLESS)
        for kind, plugin in (("SriovNetwork", "sriov"), ("SriovIBNetwork", "ib-sriov"), ("OVSNetwork", "ovs"))
    },
    ("mellanox.com", "HostDeviceNetwork"): _Operator(
        _NVIDIA, "host-device", _target, prefix=_NVIDIA_PREFIX, namespaced=False
    ),
    ("mellanox.com", "MacvlanNetwork"): _Operator(_NVIDIA, "macvlan", _target, namespaced=False),
    ("mellanox.com", "IPoIBNetwork"): _Operator(_NVIDIA, "ipoib", _target, namespaced=False),
    ("k8s.ovn.org", "UserDefinedNetwork"): _Operator(_OVN, "ovn-k8s-cni-overlay", _own),
    ("k8s.ovn.org", "ClusterUserDefinedNetwork"): _Operator(_OVN, "ovn-k8s-cni-overlay", _selected, namespaced=False),
}
CLUSTER_SCOPED = frozenset(kind for (_, kind), operator in _OPERATORS.items() if not operator.namespaced)


def makes_attachments(obj: JSON) -> bool:
    return _operator_of(obj) is not None


def attachments_of(obj: JSON, namespace: str, namespaces: Namespaces) -> Iterator[tuple[JSON, str]]:
    """The attachments that are made of an object in `namespace`, each with who makes it."""
    operator = _operator_of(obj)
    if operator is None:
        return
    spec = mapping(obj.get("spec"))
    resource = spec.get("resourceName") if operator.prefix else None
    name = str(mapping(obj.get("metadata")).get("name") or "")
    config = {"cniVersion": "1.0.0", "name": name, "type": operator.plugin, "ipam": _management(spec)}
    for home in operator.homes(namespace if operator.namespaced else "", spec, namespaces):
        metadata: JSON = {"name": name, "namespace": home, "annotations": {}}
        if isinstance(resource, str) and resource:
            # The operator of NVIDIA takes a name that has its prefix already.
            bare = resource.removeprefix(operator.prefix) if operator.name == _NVIDIA else resource
            metadata["annotations"][RESOURCE_NAME] = operator.prefix + bare
        yield (
            NETWORK_ATTACHMENTS.body(metadata, spec={"config": json.dumps(config)}),
            f"{operator.name} makes it{operator.unless}",
        )


def _operator_of(obj: JSON) -> _Operator | None:
    group, _, _ = str(obj.get("apiVersion") or "").rpartition("/")
    return _OPERATORS.get((group, str(obj.get("kind"))))


def _management(spec: JSON) -> Any:
    """The JSON in `spec.ipam`, of which the addresses are read."""
    text = spec.get("ipam")
    try:
        return mapping(decode_json(text)) if isinstance(text, str) and text else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
