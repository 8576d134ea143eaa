"""Who changed each field of an object between its manifest and what the API server would store. Pure.

The defaults of the API server are told by the owners of fields, its own admission plugins by what they are known to
set. The rest is of Berth where Berth plans it, else of the webhooks and policies that are asked about the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

from app.explain.callees import Callee
from app.explain.differences import ABSENT, Change, Element, decoded, differences, includes, value_at
from app.explain.manifests import TEMPLATES, as_defined, is_foreign
from app.kinds.defaults import apply_builtin_defaults
from app.wire import JSON, mapping

DEFAULTS = "default of the API server"
DROPPED = "dropped by the API server"
UNSEEN = "the API server, or what is not shown here"
_SET = frozenset(
    {
        *("uid", "resourceVersion", "generation", "managedFields", "selfLink"),
        *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    }
)
"""Metadata of what is stored, which no manifest decides."""
_PRESSED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
_LIMIT_RANGER = "kubernetes.io/limit-ranger"
_SET_BY_LIMITS = re.compile(r"([^;:]+) (request|limit) for (init )?container (\S+?)(?=;|$)")
_ORDER = ("LimitRanger", "ServiceAccount", "Priority", "DefaultTolerationSeconds", "RuntimeClass")
"""The order in which an API server calls those of its plugins that change Pods."""
_ALWAYS = (
    ("ServiceAccount", r"spec\.serviceAccount(Name)?|spec\.volumes\[kube-api-access-[a-z0-9]+\]"),
    ("Priority", r"spec\.(priority|preemptionPolicy)"),
    ("LimitRanger", re.escape(f"metadata.annotations[{_LIMIT_RANGER}]")),
    ("RuntimeClass", r"spec\.overhead(\W.*)?"),
)
_PERHAPS = (
    ("ServiceAccount", r"spec\.imagePullSecrets.*"),
    ("Priority", r"spec\.priorityClassName"),
    ("RuntimeClass", r"spec\.(nodeSelector|tolerations)\W.*"),
)
"""What these plugins set for some Pods, and what webhooks set, too."""
_OF_JOBS = r"spec\.selector.*|spec\.template\.metadata\.labels\[(batch\.kubernetes\.io/)?(controller-uid|job-name)\]"


@dataclass(frozen=True, slots=True)
class Tried:
    """An object before and after, what Berth plans to make of it, and who is asked to change it."""

    sent: JSON
    stored: JSON
    planned: JSON
    mutating: Sequence[Callee] = ()

    @property
    def changes(self) -> Iterator[Change]:
        """The fields that differ, but for those that only what is stored can have."""
        return differences(as_written(self.sent), as_written(self.stored))

    @property
    def plan(self) -> Iterator[Change]:
        """What Berth changes by its plan. Of these fields the API server fills in the defaults, too."""
        if self.planned is self.sent:
            return iter(())
        return differences(as_written(with_defaults(self.sent)), as_written(with_defaults(self.planned)))


@dataclass(frozen=True, slots=True)
class Origin:
    """A change, and who may have made it: one where that is known, else all that come into question."""

    change: Change
    by: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.by[0] if len(self.by) == 1 else f"one of {', '.join(self.by)}"


def as_written(obj: JSON) -> JSON:
    """Without what an API server sets when it stores an object."""
    metadata = {name: value for name, value in mapping(obj.get("metadata")).items() if name not in _SET}
    return {name: value for name, value in obj.items() if name != "status"} | {"metadata": metadata}


def origins(tried: Tried) -> list[Origin]:
    """Each change with its origin: first defaults, then in the order in which admission changes objects."""
    managed = tried.stored["metadata"].get("managedFields") or []
    filled = with_defaults(tried.sent)
    planned = list(tried.plan)
    changes = [Origin(change, _by(change, tried, managed, filled, planned)) for change in tried.changes]
    ranks = [DEFAULTS, DROPPED, *(f"admission plugin {name}" for name in _ORDER), *(c.text for c in tried.mutating)]
    return sorted(
        changes, key=lambda origin: (len(origin.by), ranks.index(origin.by[0]) if origin.by[0] in ranks else len(ranks))
    )


def lacking(tried: Tried) -> Iterator[str]:
    """The fields that Berth plans and that the answer has otherwise."""
    for change in tried.plan:
        value = value_at(tried.stored, change.path)
        if isinstance(change.path[-1], Element) and value is ABSENT:
            elements = value_at(tried.stored, change.path[:-1])
            value = (
                next((it for it in elements if includes(it, change.after)), ABSENT) if elements is not ABSENT else value
            )
        if change.after is ABSENT and value is ABSENT:
            continue
        if not includes(value, change.after):
            yield change.field


def with_defaults(sent: JSON) -> JSON:
    """A built-in object as this version of Berth knows its defaults; others as they are."""
    if sent.get("kind") not in TEMPLATES or is_foreign(sent) or (defined := as_defined(sent)) is None:
        return sent
    complete = deepcopy({"kind": sent["kind"], "apiVersion": sent.get("apiVersion"), **defined})
    apply_builtin_defaults(complete["kind"], complete)
    return complete


def _by(
    change: Change, tried: Tried, managed: Sequence[JSON], filled: JSON, planned: Iterable[Change]
) -> tuple[str, ...]:
    if _is_default(change, managed, filled) or _as_stored(change, tried.sent):
        return (DEFAULTS if change.after is not ABSENT else DROPPED,)
    is_pod = tried.sent.get("kind") == "Pod"
    if is_pod and (plugin := _plugin(change, tried.stored)):
        return (f"admission plugin {plugin}",)
    berth = next((callee for callee in tried.mutating if callee.ours), None)
    if berth is not None and any(_is_planned(change, operation) for operation in planned):
        return (berth.text,)
    names = [step for step in change.path[:2] if isinstance(step, str)]
    others = [callee for callee in tried.mutating if callee.may_change(names) and not (callee.ours and is_pod)]
    perhaps = [f"admission plugin {name}" for name in _plugins(_PERHAPS, change)] if is_pod else []
    if "RuntimeClass" in "".join(perhaps) and not tried.sent["spec"].get("runtimeClassName"):
        perhaps = []
    candidates = [*perhaps, *(callee.text for callee in others)]
    return tuple(dict.fromkeys(candidates)) or (berth.text if berth is not None else UNSEEN,)


def _is_default(change: Change, managed: Sequence[JSON], filled: JSON) -> bool:
    """Whether the field is so since the API server decoded the object."""
    default = value_at(filled, change.path)
    before = decoded(managed, change.path)
    if change.after is ABSENT:
        return before is False or (before is None and default is ABSENT)
    if change.before is ABSENT and before is not None:
        return before
    return default is not ABSENT and bool(default == change.after)


def _as_stored(change: Change, sent: JSON) -> bool:
    """Whether the storage of the API server sets it after admission."""
    return sent.get("kind") == "Job" and not is_foreign(sent) and bool(re.fullmatch(_OF_JOBS, change.field))


def _plugin(change: Change, stored: JSON) -> str:
    """The plugin of the API server that alone sets such a field of a Pod; "" where there is none."""
    value = change.after if isinstance(change.after, dict) else {}
    if value.get("key") in _PRESSED and value.get("effect") == "NoExecute" and "tolerationSeconds" in value:
        return "DefaultTolerationSeconds"
    if value.get("mountPath") == _TOKENS:
        return "ServiceAccount"
    if change.field in _limited(stored):
        return "LimitRanger"
    return next(_plugins(_ALWAYS, change), "")


def _plugins(table: Iterable[tuple[str, str]], change: Change) -> Iterator[str]:
    return (name for name, pattern in table if re.fullmatch(pattern, change.field))


def _limited(stored: JSON) -> set[str]:
    """The fields that the plugin LimitRanger names in its annotation."""
    text = str((stored["metadata"].get("annotations") or {}).get(_LIMIT_RANGER) or "")
    fields = set()
    for resources, part, initial, container in _SET_BY_LIMITS.findall(text):
        for resource in resources.split(","):
            name = resource.strip()
            path = ("spec", "initContainers" if initial else "containers", Element(container, {}))
            fields.add(Change((*path, "resources", f"{part}s", name), ABSENT, ABSENT).field)
    return fields


def _is_planned(change: Change, planned: Change) -> bool:
    if change.after is ABSENT or planned.after is ABSENT:
        return change.path == planned.path and change.after is planned.after
    alike = change.path[:-1] == planned.path[:-1] and isinstance(change.path[-1], Element)
    return (change.path == planned.path or alike) and includes(change.after, planned.after)
