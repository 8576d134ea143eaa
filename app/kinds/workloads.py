"""Validation of Deployments, ReplicaSets, StatefulSets and DaemonSets, in the API server's words. Pure.

Takes the spec of an object that `shapes` decoded and `defaults` completed.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from app.kinds.claims import check_claim_spec
from app.kinds.fielderrors import Field
from app.kinds.name_syntax import check_annotations, check_label_selector, check_labels, label_faults
from app.kinds.pod_annotations import check_pod_annotations
from app.kinds.validation import check_pod_spec
from app.kube.selectors import label_selector_from_json
from app.wire import JSON

NOT_NEGATIVE = "must be greater than or equal to 0"
_PERCENT = re.compile(r"[0-9]+%", re.ASCII)
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_TOO_MANY = "must not be greater than 100%"
NO_MATCH = "`selector` does not match template `labels`"
_RETENTION = ("Retain", "Delete")
_ROLLING = "RollingUpdate"


def check_deployment(whole: Field) -> None:
    """Its numbers, selector and template, how it is rolled out."""
    spec = whole.below("spec")
    spec.number("replicas", 0, NOT_NEGATIVE)
    if _check_selector(spec, "deployment"):
        _check_endless(spec, "ReplicaSet")
    strategy = spec.below("strategy")
    if strategy.text("type") not in ("Recreate", _ROLLING):
        strategy.fault("", "NotSupported", f'supported values: "Recreate", "{_ROLLING}"', strategy.value)
    elif strategy.text("type") != _ROLLING and "rollingUpdate" in strategy.value:
        strategy.fault("rollingUpdate", "Forbidden", "may not be specified when strategy `type` is 'Recreate'")
    elif "rollingUpdate" in strategy.value:
        rolling = strategy.below("rollingUpdate")
        down, up = _check_share(rolling, "maxUnavailable", bounded=True), _check_share(rolling, "maxSurge")
        if not down and not up:
            rolling.fault("maxUnavailable", "Invalid", "may not be 0 when `maxSurge` is 0")
    for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        spec.number(field, 0, NOT_NEGATIVE)
    ready = spec.value.get("minReadySeconds", 0)
    if spec.value.get("progressDeadlineSeconds", ready + 1) <= ready:
        spec.fault("progressDeadlineSeconds", "Invalid", "must be greater than minReadySeconds")


def check_replica_set(whole: Field) -> None:
    """Its numbers, selector and template."""
    spec = whole.below("spec")
    for field in ("replicas", "minReadySeconds"):
        spec.number(field, 0, NOT_NEGATIVE)
    if _check_selector(spec, "deployment"):  # the server names the other kind here
        _check_endless(spec, "ReplicaSet")


def check_replication_controller(whole: Field) -> None:
    """Its numbers, selector and template."""
    spec = whole.below("spec")
    for field in ("replicas", "minReadySeconds"):
        spec.number(field, 0, NOT_NEGATIVE)
    labels, selector = spec.below("template").below("metadata").value.get("labels") or {}, spec.value.get("selector")
    if not (selector or labels):
        spec.fault("selector", "Required")
    if "template" not in spec.value:
        spec.fault("template", "Required")
        return
    if any(labels.get(key) != value for key, value in (selector or {}).items()):
        spec.fault("template.metadata.labels", "Invalid", NO_MATCH, labels)
    _check_endless(spec, "ReplicationController", matched=True)


def check_pod_template(whole: Field) -> None:
    """A template that is an object of its own."""
    check_template(whole.below("template"))


def check_stateful_set(whole: Field) -> None:
    """How its Pods are made and changed, its numbers, selector and template with the volumes that it adds."""
    spec = whole.below("spec")
    if (policy := spec.text("podManagementPolicy")) not in ("OrderedReady", "Parallel"):
        spec.fault("podManagementPolicy", "Invalid", "must be 'OrderedReady' or 'Parallel'", policy)
    _check_state_strategy(spec.below("updateStrategy"))
    for field in ("whenDeleted", "whenScaled"):
        spec.below("persistentVolumeClaimRetentionPolicy").one_of(field, _RETENTION, optional=True)
    for claim in spec.each("volumeClaimTemplates"):
        check_claim_spec(claim.below("spec"))
    for field in ("replicas", "minReadySeconds"):
        spec.number(field, 0, NOT_NEGATIVE)
    spec.below("ordinals").number("start", 0, NOT_NEGATIVE)
    spec.syntax("serviceName", label_faults, optional=True)
    if _check_selector(spec, "statefulset"):
        added = [claim.below("metadata").text("name") for claim in spec.each("volumeClaimTemplates")]
        for index in (index for index, name in enumerate(added) if not name):
            for field in ("name", "persistentVolumeClaim.claimName"):
                spec.fault(f"template.spec.volumes[{index}].{field}", "Required")
        _check_endless(spec, "StatefulSet", ignored=("hostname", "subdomain"), added={*filter(None, added)})


def check_daemon_set(whole: Field) -> None:
    """Its selector, the template, how it is rolled out."""
    spec = whole.below("spec")
    selector = spec.value.get("selector")
    if faults := check_label_selector(selector or {}, "spec.selector"):
        spec.errors += faults
    else:
        _check_match(spec)
    if selector is not None and not any(selector.values()):
        spec.fault("selector", "Invalid", "empty selector is invalid for daemonset", {})
    _check_endless(spec, "DaemonSet", matched=True)
    for field in ("minReadySeconds", "revisionHistoryLimit"):
        spec.number(field, 0, NOT_NEGATIVE)
    strategy = spec.below("updateStrategy")
    if strategy.text("type") not in (_ROLLING, "OnDelete"):
        strategy.fault("", "NotSupported", f'supported values: "{_ROLLING}", "OnDelete"', strategy.value)
    if strategy.text("type") != _ROLLING or "rollingUpdate" not in strategy.value:
        return
    rolling = strategy.below("rollingUpdate")
    down, up = (_check_share(rolling, field, bounded=True) for field in ("maxUnavailable", "maxSurge"))
    if not down and not up:
        rolling.fault("maxUnavailable", "Required", "cannot be 0 when maxSurge is 0")
    elif down and up:
        rolling.fault("maxSurge", "Invalid", "may not be set when maxUnavailable is non-zero")


def check_template(template: Field, spec: JSON | None = None) -> Field:
    """A Pod template; its Pod's spec is returned. `spec` is checked in its place, where the controller changes it."""
    metadata, pod = template.below("metadata").value, template.below("spec")
    # The server leaves `metadata` out of these paths.
    template.errors += check_labels(metadata.get("labels"), template.at("labels"))
    template.errors += check_annotations(metadata.get("annotations") or {}, template.at("annotations"))
    template.errors += check_pod_spec(pod.value if spec is None else spec, pod.path)
    check_pod_annotations(metadata.get("annotations") or {}, pod, template.at("annotations"), of_template=True)
    if pod.value.get("ephemeralContainers"):
        pod.fault("ephemeralContainers", "Forbidden", "ephemeral containers not allowed in pod template")
    return pod


def _check_endless(
    spec: Field,
    kind: str,
    *,
    ignored: tuple[str, ...] = (),
    added: Collection[str] = (),
    matched: bool = False,
) -> None:
    """The template of Pods that run until they are deleted; `added` are volumes that the controller adds to it."""
    if not matched:
        _check_match(spec)
    template = spec.below("template")
    given = template.below("spec").value
    if ignored or added:
        kept = {field: value for field, value in given.items() if field not in ignored}
        volumes = [volume for volume in given.get("volumes") or () if volume.get("name") not in added]
        claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(added)]
        given = {**kept, "volumes": [*claims, *volumes]}
    pod = check_template(template, given)
    pod.one_of("restartPolicy", ("Always",))
    if "activeDeadlineSeconds" in pod.value:
        pod.fault("activeDeadlineSeconds", "Forbidden", f"activeDeadlineSeconds in {kind} is not Supported")


def _check_selector(spec: Field, kind: str) -> bool:
    """Whether the selector can be used; the server looks at no template where it cannot."""
    selector = spec.value.get("selector")
    if selector is None:
        spec.fault("selector", "Required")
        return True
    if faults := check_label_selector(selector, "spec.selector"):
        spec.errors += faults
        spec.fault("selector", "Invalid", "invalid label selector")
        return False
    if not any(selector.values()):
        spec.fault("selector", "Invalid", f"empty selector is invalid for {kind}", {})
    return True


def _check_match(spec: Field) -> None:
    selector = spec.value.get("selector")
    labels = spec.below("template").below("metadata").value.get("labels")
    empty = selector is not None and not any(selector.values())
    if not empty and not label_selector_from_json(selector).matches(labels):
        spec.fault("template.metadata.labels", "Invalid", NO_MATCH, labels)


def _check_state_strategy(strategy: Field) -> None:
    kinds = f"must be '{_ROLLING}' or 'OnDelete'"
    if strategy.text("type") not in (_ROLLING, "OnDelete"):
        strategy.fault("", "Invalid", kinds, strategy.value)
    elif "rollingUpdate" not in strategy.value:
        return
    elif strategy.text("type") != _ROLLING:
        strategy.fault("rollingUpdate", "Invalid", f"only allowed for updateStrategy '{_ROLLING}'")
    else:
        rolling = strategy.below("rollingUpdate")
        rolling.number("partition", 0, NOT_NEGATIVE)
        if "maxUnavailable" in rolling.value and not _check_share(rolling, "maxUnavailable", bounded=True):
            rolling.fault("maxUnavailable", "Invalid", "cannot be 0")


def _check_share(rolling: Field, field: str, *, bounded: bool = False) -> bool:
    """A number of Pods, or a percentage of them: whether it counts as more than 0."""
    share = rolling.value.get(field, 0)
    if isinstance(share, int):
        rolling.number(field, 0, NOT_NEGATIVE)
        return bool(share)
    if not _PERCENT.fullmatch(share):
        rolling.fault(field, "Invalid", _PERCENT_TEXT)
        return False
    digits = share[:-1].lstrip("0")
    if bounded and (len(digits) > 3 or int(digits or "0") > 100):
        rolling.fault(field, "Invalid", _TOO_MANY)
    return bool(digits)
