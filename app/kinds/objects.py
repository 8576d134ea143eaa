"""Validation of whole built-in objects by kind, with the messages of the API server. Pure.

Takes an object that `shapes` decoded and `defaults` completed: the `stringData` of a Secret is in `data` by then.
`name_syntax.check_metadata` checks the metadata.
"""

from __future__ import annotations

import base64
import binascii
import re

import msgspec

from app.kinds import defaults, shapes, tables
from app.kinds.fielderrors import Field, FieldError, invalid
from app.kinds.name_syntax import check_annotations, check_label_selector, check_labels, check_metadata, key_faults
from app.kinds.validation import check_pod, check_pod_spec
from app.kube.selectors import label_selector_from_json
from app.wire import JSON, decode_json

_PERCENT = re.compile(r"[0-9]+%", re.ASCII)
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_NOT_NEGATIVE = "must be greater than or equal to 0"
_DATA_LIMIT = 1024 * 1024
_DATA_TEXT = f"may not be more than {_DATA_LIMIT} bytes"
_ACCOUNT = "kubernetes.io/service-account.name"


def check_written(
    kind: str, version: str, written: JSON, *, kept: tuple[str, ...]
) -> tuple[list[FieldError], list[str]]:
    """All faults of an object as its author writes it, and the paths of unknown fields.

    Of its metadata only the fields `kept` will be used; without `name` among them it gets one. Raises ShapeError.
    """
    metadata = written.get("metadata")
    if metadata is None or isinstance(metadata, dict):
        unused = tables.fields_of("ObjectMeta").keys() - set(kept)
        given = {} if "name" in kept else {"name": "template"}
        metadata = {field: value for field, value in (metadata or {}).items() if field not in unused} | given
    decoded, unknown = shapes.decode_builtin(kind, version, {**written, "metadata": metadata})
    defaults.apply_builtin_defaults(kind, decoded)
    errors = check_metadata(decoded["metadata"], namespaced=True, name_rule="subdomain", free_finalizers=False)
    return errors + check_object(kind, decoded), unknown


def check_object(kind: str, obj: JSON) -> list[FieldError]:
    """All faults of a Pod, DaemonSet, Secret or ConfigMap that is to be created; none of other kinds."""
    if kind == "Pod":
        errors = check_pod(obj)
        if obj["spec"].get("ephemeralContainers"):
            errors.append(FieldError("spec.ephemeralContainers", "Forbidden", "cannot be set on create"))
        return errors
    whole = Field(obj)
    if check := {"DaemonSet": _check_daemon_set, "Secret": _check_secret, "ConfigMap": _check_config_map}.get(kind):
        check(whole)
    return whole.errors


def _check_daemon_set(daemon_set: Field) -> None:
    """Its selector, the template, how it is rolled out."""
    spec = daemon_set.below("spec")
    template = spec.below("template")
    metadata, pod = template.below("metadata").value, template.below("spec")
    _check_selector(spec, metadata.get("labels"))
    for field in ("minReadySeconds", "revisionHistoryLimit"):
        spec.number(field, 0, _NOT_NEGATIVE)
    # The server leaves `metadata` out of these paths.
    template.errors += check_labels(metadata.get("labels"), template.at("labels"))
    template.errors += check_annotations(metadata.get("annotations") or {}, template.at("annotations"))
    template.errors += check_pod_spec(pod.value, pod.path)
    pod.one_of("restartPolicy", ("Always",))
    if "activeDeadlineSeconds" in pod.value:
        pod.fault("activeDeadlineSeconds", "Forbidden", "activeDeadlineSeconds in DaemonSet is not Supported")
    _check_strategy(spec.below("updateStrategy"))


def _check_selector(spec: Field, labels: JSON | None) -> None:
    selector = spec.value.get("selector")
    faults = check_label_selector(selector or {}, "spec.selector")
    spec.errors += faults
    if not faults and not label_selector_from_json(selector).matches(labels):
        text = "`selector` does not match template `labels`"
        spec.errors.append(FieldError("spec.template.metadata.labels", "Invalid", text, labels))
    if selector is not None and not any(selector.values()):
        spec.fault("selector", "Invalid", "empty selector is invalid for daemonset", {})


def _check_strategy(strategy: Field) -> None:
    strategy.one_of("type", ("RollingUpdate", "OnDelete"))
    if strategy.text("type") != "RollingUpdate" or "rollingUpdate" not in strategy.value:
        return
    rolling = strategy.below("rollingUpdate")
    down, up = (_check_share(rolling, field) for field in ("maxUnavailable", "maxSurge"))
    if not down and not up:
        rolling.fault("maxUnavailable", "Required", "cannot be 0 when maxSurge is 0")
    elif down and up:
        rolling.fault("maxSurge", "Invalid", "may not be set when maxUnavailable is non-zero")


def _check_share(rolling: Field, field: str) -> bool:
    """A number of Pods, or a percentage of them: whether it counts as more than 0."""
    share = rolling.value.get(field, 0)
    if isinstance(share, int):
        rolling.number(field, 0, _NOT_NEGATIVE)
        return bool(share)
    if not _PERCENT.fullmatch(share):
        rolling.fault(field, "Invalid", _PERCENT_TEXT)
        return False
    digits = share[:-1].lstrip("0")
    if len(digits) > 3 or int(digits or "0") > 100:
        rolling.fault(field, "Invalid", "must not be greater than 100%")
    return bool(digits)


def _check_config_map(whole: Field) -> None:
    text, binary = whole.value.get("data") or {}, whole.value.get("binaryData") or {}
    for key in text:
        _check_key(whole, "data", key)
        if key in binary:
            whole.fault(f"data[{key}]", "Invalid", "duplicate of key present in binaryData", key)
    for key in binary:
        _check_key(whole, "binaryData", key)
    if sum(len(value.encode()) for value in text.values()) + _length(binary) > _DATA_LIMIT:
        whole.fault("data", "TooLong", _DATA_TEXT)


def _check_secret(whole: Field) -> None:
    data, kind = whole.value.get("data") or {}, whole.value.get("type") or "Opaque"
    for key in data:
        _check_key(whole, "data", key)
    if _length(data) > _DATA_LIMIT:
        whole.fault("data", "TooLong", _DATA_TEXT)
    missing: list[str] = []
    match kind:
        case "kubernetes.io/service-account-token" if not whole.below("metadata").below("annotations").text(_ACCOUNT):
            whole.fault(f"metadata.annotations[{_ACCOUNT}]", "Required")
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson":
            missing = _check_json(whole, f".{kind.removeprefix('kubernetes.io/')}")
        case "kubernetes.io/basic-auth" if not data.keys() & {"username", "password"}:
            missing = ["username", "password"]
        case "kubernetes.io/ssh-auth" if not data.get("ssh-privatekey"):
            missing = ["ssh-privatekey"]
        case "kubernetes.io/tls":
            missing = [key for key in ("tls.crt", "tls.key") if key not in data]
    for key in missing:
        whole.fault(f"data[{key}]", "Required")


def _check_json(whole: Field, key: str) -> list[str]:
    """The key, where it is missing."""
    data = whole.value.get("data") or {}
    if key not in data:
        return [key]
    try:
        decode_json(base64.b64decode(data[key]))
    except (binascii.Error, msgspec.DecodeError, UnicodeError, RecursionError):
        whole.fault(f"data[{key}]", "Invalid", "must be a JSON object", "<secret contents redacted>")
    return []


def _check_key(whole: Field, field: str, key: str) -> None:
    whole.errors += invalid(f"{field}[{key}]", key, key_faults(key))


def _length(data: JSON) -> int:
    """Bytes behind the values, which are canonical base64."""
    return sum(len(encoded) // 4 * 3 - encoded[-2:].count("=") for encoded in data.values())
