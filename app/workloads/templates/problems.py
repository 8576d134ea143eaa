"""Manifests that the infra cluster is to be given: the Pod template of a rule, and the objects of tenants.

Says what is wrong before anything is created: what the API server would refuse (by `app.kinds`, in its words) and what
a tenant may not ask for (by the guards). Pure: arbitrary JSON in, one line for each problem out, each beginning with
the field's path. Never changes its input, never raises, looks nothing up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from app.kinds.objects import check_written
from app.kinds.shapes import ShapeError, decode_builtin
from app.pace import step
from app.placement.model import TenantPolicy
from app.wire import JSON, decode_json, encode_json
from app.workloads.templates.bounds import at, foreign_metadata, reserved_marks, shown, token_secret
from app.workloads.templates.guards import forbidden_fields

_KINDS = ("Pod", "DaemonSet", "Secret", "ConfigMap")
"""The kinds of objects that a tenant may have in the infra cluster."""
_API_VERSIONS: Final = {**dict.fromkeys(_KINDS, "v1"), "DaemonSet": "apps/v1"}
_PODS = {"Pod": "spec", "DaemonSet": "spec.template.spec"}
"""Where the spec of a Pod stands."""
_STRICT: Final = TenantPolicy()
MOST_ITEMS = 1000
MOST_OBJECTS = 3000
"""In the lists of a Pod's spec, at all levels together: containers, variables, volumes, their sources and items."""
MOST_VALUES = 20_000
"""Fields and items of one manifest, at all levels together. A Pod with ten containers has some hundreds."""
_TEMPLATE_METADATA = ("labels", "annotations")
_MANIFEST_METADATA = ("name", *_TEMPLATE_METADATA)
"""What becomes of an object's metadata; namespace and all that the server writes are not the author's."""


def template_problems(
    template: Any, *, trusted: bool, path: str = "spec.template", policy: TenantPolicy = _STRICT
) -> list[str]:
    """What is wrong with the Pod manifest of a rule.

    A `trusted` template, the admin's, may ask for the host, but it may not write Berth's own marks; for others `policy`
    says what they may ask for. A template needs no metadata: what it has beside labels and annotations is not used.
    """
    return _problems(template, "Pod", path, policy, kept=_TEMPLATE_METADATA, trusted=trusted)


def manifest_problems(
    manifest: Any, *, kind: str, path: str = "spec.object", policy: TenantPolicy = _STRICT
) -> list[str]:
    """What is wrong with a tenant's manifest, which must be a Pod, DaemonSet, Secret or ConfigMap as `kind` says.

    It needs a name. Its namespace is not looked at: the object is created in the tenant's, whatever it says. `policy`
    says what its Pods may ask for.
    """
    if kind not in _KINDS:
        kinds = ", ".join(_KINDS)
        return [f"{path}.kind: {shown(kind)} cannot be created for a tenant; want one of {kinds}"]
    return _problems(manifest, kind, path, policy, kept=_MANIFEST_METADATA)


def _problems(
    manifest: Any, kind: str, path: str, policy: TenantPolicy, *, kept: tuple[str, ...], trusted: bool = False
) -> list[str]:
    """`kept` are the fields of the metadata that will be used."""
    if _has_more_values(manifest):
        return [f"{path}: want at most {MOST_VALUES} fields and items at all levels together, got more"]
    plain = _plain(manifest)
    if plain is None:
        return [f"{path}: want the manifest of a {kind}, an object"]
    if crowded := _crowded(plain, kind, path):
        return crowded
    guarded = (
        reserved_marks(plain.get("metadata"), f"{path}.metadata") if trusted else _guarded(plain, kind, path, policy)
    )
    # Each line once, in order: the server words some faults by field alone.
    return list(dict.fromkeys([*guarded, *_faults(plain, kind, path, kept)]))


def unknown_fields(manifest: Any, *, kind: str, path: str) -> list[str]:
    """Fields of a valid manifest that Berth does not know. Newer API servers have more, so each is only a warning."""
    written = {field: value for field, value in manifest.items() if field != "status"}
    try:
        _, unknown = decode_builtin(kind, _API_VERSIONS[kind].rpartition("/")[2], written)
    except ShapeError:  # in metadata that is not used, and has not been checked therefore
        return []
    return [
        f"{path}.{field}: unknown to Berth; the API server of the infra cluster decides about it" for field in unknown
    ]


def _crowded(manifest: JSON, kind: str, path: str) -> list[str]:
    """Lists that are too long, at any level: every item is checked, and other requests wait meanwhile.

    Affinity has bounds of its own (`bounds`).
    """
    where = _PODS.get(kind, _PODS["DaemonSet"])
    problems: list[str] = []
    total, waiting = 0, [(f"{path}.{where}", at(manifest, where))]
    while waiting:
        here, value = waiting.pop()
        step()
        if isinstance(value, dict):
            waiting += [(f"{here}.{name}", below) for name, below in value.items() if name != "affinity"]
        elif isinstance(value, list):
            entries = [(f"{here}[{index}]", item) for index, item in enumerate(value) if not isinstance(item, str)]
            total += len(entries)
            if len(entries) > MOST_ITEMS:
                problems.append(f"{here}: want at most {MOST_ITEMS}, got {len(entries)}")
            else:
                waiting += entries
    if total > MOST_OBJECTS and not problems:
        problems.append(f"{path}.{where}: want at most {MOST_OBJECTS} objects in all lists together, got {total}")
    return sorted(problems)


def _has_more_values(manifest: Any) -> bool:
    """Whether it has more than MOST_VALUES fields and items. Stops where it has; nothing is copied before."""
    waiting: list[Any] = [manifest] if isinstance(manifest, dict) else []
    count = 0
    while waiting:
        value = waiting.pop()
        step()
        count += len(value)
        if count > MOST_VALUES:
            return True
        inner = value.values() if isinstance(value, dict) else value
        waiting += [below for below in inner if below and isinstance(below, dict | list | tuple)]
    return False


def _guarded(manifest: JSON, kind: str, path: str, policy: TenantPolicy) -> Iterator[str]:
    yield from foreign_metadata(manifest.get("metadata"), f"{path}.metadata")
    if kind == "DaemonSet":
        yield from foreign_metadata(at(manifest, "spec.template.metadata"), f"{path}.spec.template.metadata")
    if where := _PODS.get(kind):
        yield from forbidden_fields(at(manifest, where), f"{path}.{where}", policy)
    elif kind == "Secret":
        yield from token_secret(manifest, path)


def _faults(manifest: JSON, kind: str, path: str, kept: tuple[str, ...]) -> list[str]:
    """Why the API server would not take the manifest."""
    version = _API_VERSIONS[kind]
    problems = [
        f"{path}.{field}: want {expected}, got {shown(manifest.get(field))}"
        for field, expected in (("apiVersion", version), ("kind", kind))
        if manifest.get(field) != expected
    ]
    rest = {field: value for field, value in manifest.items() if field != "status"}
    whole = {**rest, "apiVersion": version, "kind": kind}
    try:
        errors, _ = check_written(kind, version.rpartition("/")[2], whole, kept=kept)
    except ShapeError as error:
        return [*problems, f"{path}.{error.field}: {error.fault}"]
    return [*problems, *(f"{path}.{error}" for error in errors)]


def _plain(manifest: Any) -> JSON | None:
    """A copy that is nothing but JSON, so that nothing below meets a surprise; None where it is not an object."""
    if not isinstance(manifest, dict):
        return None
    try:
        copy: JSON = decode_json(encode_json(manifest))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return copy
