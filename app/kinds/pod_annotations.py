"""Validation of the annotations that mean something for a Pod, in the API server's words. Pure.

Source: `ValidatePodSpecificAnnotations` of Kubernetes 1.37, and the checks that annotations and fields of AppArmor and
seccomp say the same.
"""

from __future__ import annotations

import re

import msgspec

from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import descending_path_faults
from app.kinds.scheduling import check_tolerations
from app.kinds.security import containers_of
from app.kinds.shapes import ShapeError, decode_fields
from app.wire import JSON

_MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_COST = "controller.kubernetes.io/pod-deletion-cost"
_COST_FORM = re.compile(r"0|[1-9][0-9]{0,9}|-0*[0-9]{1,10}", re.ASCII)
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_LOCAL = "localhost/"
_TOLERATION_FIELDS = {name.lower(): name for name in ("key", "operator", "value", "effect", "tolerationSeconds")}


def check_pod_annotations(annotations: JSON, pod: Field, path: str, *, of_template: bool) -> None:
    """The annotations at `path` of a Pod, or of a template, whose spec is `pod`; faults are added to those of `pod`."""
    if _MIRROR in annotations and not pod.text("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        pod.errors += invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], [text])
    if annotations.get(_TOLERATIONS):
        _check_tolerations(annotations[_TOLERATIONS], pod, path)
    cost = annotations.get(_COST, "0")
    if not _COST_FORM.fullmatch(cost) or not -(2**31) <= int(cost) < 2**31:
        pod.errors += invalid(f"{path}[{_COST}]", cost, ["must be a 32bit integer"])
    names = {container.text("name") for container in containers_of(pod)}
    for key, value in annotations.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            pod.errors += invalid(f"{path}.{key}", value, _seccomp_faults(value))
        if key.startswith(_APP_ARMOR):
            name = key.removeprefix(_APP_ARMOR)
            pod.errors += invalid(f"{path}[{key}]", name, [] if name in names else ["container not found"])
            pod.errors += invalid(f"{path}[{key}]", value, _app_armor_faults(value))
    _check_seccomp(annotations, pod)
    _check_app_armor(annotations, pod, of_template=of_template)


def _check_tolerations(text: str, pod: Field, path: str) -> None:
    """Tolerations in JSON, whose names may have any case."""
    try:
        entries = msgspec.json.decode(text, type=list[JSON | None] | None) or []
        tolerations = [decode_fields("Toleration", _with_names(entry or {})) for entry in entries]
    except (msgspec.DecodeError, RecursionError, ShapeError):
        pod.errors += invalid(path, _TOLERATIONS, ["must be a list of tolerations in JSON"])
        return
    check_tolerations(Field({_TOLERATIONS: tolerations}, path, pod.errors), _TOLERATIONS)


def _with_names(entry: JSON) -> JSON:
    return {_TOLERATION_FIELDS.get(name.lower(), name): value for name, value in entry.items()}


def _seccomp_faults(profile: str) -> list[str]:
    if profile.startswith(_LOCAL):
        return descending_path_faults(profile.removeprefix(_LOCAL))
    return [] if profile in ("runtime/default", "docker/default", "unconfined") else ["must be a valid seccomp profile"]


def _app_armor_faults(profile: str) -> list[str]:
    fine = profile in ("", "runtime/default", "unconfined") or profile.startswith(_LOCAL)
    return [] if fine else [f'invalid AppArmor profile name: "{profile}"']


def _check_seccomp(annotations: JSON, pod: Field) -> None:
    """An annotation and a field of the Pod, or of one container, say the same."""
    holders = [
        (_SECCOMP_POD, pod),
        *((_SECCOMP + container.text("name"), container) for container in containers_of(pod)),
    ]
    for key, holder in holders:
        profile = holder.below("securityContext").below("seccompProfile")
        if key in annotations:
            _check_same(profile.value, annotations[key], profile, "seccomp")


def _check_app_armor(annotations: JSON, pod: Field, *, of_template: bool) -> None:
    """As `_check_seccomp`; a field of the Pod is that of its containers.

    Of a Pod, an annotation that names a profile becomes the field of a container that has none.
    """
    if pod.below("os").text("name") == "windows":
        return
    of_pod = pod.below("securityContext").value.get("appArmorProfile") or {}
    for container in containers_of(pod):
        annotation = annotations.get(_APP_ARMOR + container.text("name"))
        profile = container.below("securityContext").below("appArmorProfile")
        becomes_field = not profile.value and not of_template and annotation not in ("", _LOCAL)
        if annotation is not None and not (becomes_field and not _app_armor_faults(annotation)):
            _check_same(profile.value or of_pod, annotation, profile, "AppArmor")


def _check_same(profile: JSON, annotation: str, at: Field, word: str) -> None:
    """Whether an annotation names the profile of a field, where there is one."""
    name = "apparmor" if word == "AppArmor" else word
    match profile.get("type"):
        case "Unconfined":
            same = annotation == "unconfined"
        case "RuntimeDefault":
            same = annotation == "runtime/default" or (word == "seccomp" and annotation == "docker/default")
        case "Localhost":
            same = annotation.startswith(_LOCAL)
            if same and annotation.removeprefix(_LOCAL) != profile.get("localhostProfile"):
                at.fault("localhostProfile", "Forbidden", f"{name} profile in annotation and field must match")
        case _:
            return
    if not same:
        at.fault("type", "Forbidden", f"{name} type in annotation and field must match")
