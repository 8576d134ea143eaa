"""What has to exist, worked out from the tenants' clusters and the admin's wishes alone; and how that differs from what is.

Written from the description of the Workload API, not from the planner: it shares with the code the names of kinds and
marks and nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from app.kube.resources import CONFIG_MAPS, PODS, SECRETS
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.workloads.model import (
    ADMIN_RULES,
    COMPANION,
    MIRROR,
    RESOURCE_OWNER,
    RULE,
    RULE_GENERATION,
    RULE_NAME,
    RULE_OWNER,
    TENANT_RULES,
    UVS_CONFIG_MAPS,
    UVS_PODS,
    UVS_SECRETS,
    WORKLOAD,
    WORKLOAD_ID,
    WORKLOAD_RULES,
    WORKLOADS,
)
from tests.integration.faults.reading import (
    Place,
    _content,
    _is_mirror,
    _place,
    _public,
    _shown,
    guest_of,
    holds,
    live,
    lookup,
    rendered,
    workload_of,
)
from tests.integration.faults.world import Side, World

JSON = dict[str, Any]


@dataclass
class Book:
    """What the driver has asked for beside the tenants' objects, and what must not be touched by anybody.

    `foreign` maps (cluster, plural, namespace, name) to uid and version; `guests` are UVSPods of users that bear the
    name of a companion, with all that is theirs; `stable` maps things to what they were made from and their uid.
    """

    admin: dict[str, JSON] = field(default_factory=dict)
    api_rules: dict[Place, JSON] = field(default_factory=dict)
    foreign: dict[tuple[str, str, str, str], tuple[str, str]] = field(default_factory=dict)
    guests: dict[tuple[str, str], JSON] = field(default_factory=dict)
    stable: dict[tuple[str, ...], tuple[Any, str]] = field(default_factory=dict)

    def forget(self, text: str) -> None:
        """Somebody has meddled with what has this in its name: it may be another object now."""
        self.stable = {key: kept for key, kept in self.stable.items() if text not in key[-1]}


@dataclass(frozen=True)
class Wanted:
    """A companion that should exist: `shown` is everything of it that counts, `made_of` what its life depends on."""

    place: Place
    kind: str
    rule: Place
    workload: Place
    shown: JSON
    made_of: Any


class Oracle:
    """One look at all clusters; `differences` are lines, none where all is as it should be."""

    def __init__(self, world: World, book: Book) -> None:
        self.world, self.book = world, book
        self.differences: list[str] = []
        self.now: dict[tuple[str, ...], tuple[Any, str]] = {}
        self.infra = world.infra
        self.live = {
            name: {pod["metadata"]["uid"]: pod for pod in side.all(PODS) if live(pod)}
            for name, side in world.tenants.items()
        }
        self.pods = {_place(pod): pod for pod in self.infra.all(PODS)}
        self.ours = {place: pod for place, pod in self.pods.items() if ("infra", "pods", *place) not in book.foreign}
        self.wanted: dict[Place, Wanted] = {}
        self.waiting: set[tuple[Place, Place]] = set()
        self.taken: set[tuple[Place, Place]] = set()
        self.matched: Counter[Place] = Counter()
        self._workloads()
        self._rules()
        self._plan()
        self._companions()
        for name, side in world.tenants.items():
            self._objects(name, side)
            self._mirrors(name, side)
        self._statuses()
        self._foreign()
        self._steady()

    def _differ(self, what: str, want: Any, have: Any) -> None:
        if want == have:
            return
        if isinstance(want, dict) and isinstance(have, dict):
            for key in sorted(want.keys() | have.keys(), key=str):
                if want.get(key) != have.get(key):
                    self._differ(f"{what} {key}", want.get(key), have.get(key))
        else:
            self.differences.append(f"{what}: want {want!r:.300}, have {have!r:.300}")

    def _workloads(self) -> None:
        want, have = {}, {}
        for tenant, pods in self.live.items():
            for uid, pod in pods.items():
                want[f"tenant-{tenant}", f"workload-{uid}"] = workload_of(pod)
        for obj in self.infra.all(WORKLOADS):
            have[_place(obj)] = obj["spec"]
            self.now["workload", *_place(obj)] = "", obj["metadata"]["uid"]
        self._differ("Workload", want, have)

    def _rules(self) -> None:
        want: dict[Place, Any] = {place: (spec, "api", None) for place, spec in self.book.api_rules.items()}
        for tenant, side in self.world.tenants.items():
            for rule in side.all(WORKLOAD_RULES):
                metadata = rule["metadata"]
                want[f"tenant-{tenant}", metadata["name"]] = rule["spec"], "agent", str(metadata["generation"])
        have = {}
        for rule in self.infra.all(TENANT_RULES):
            labels, annotations = (rule["metadata"].get(part) or {} for part in ("labels", "annotations"))
            have[_place(rule)] = rule["spec"], labels.get(RULE_OWNER), annotations.get(RULE_GENERATION)
            self.now["rule", *_place(rule)] = "", rule["metadata"]["uid"]
        self._differ("stored rule", want, have)
        have_admin = {rule["metadata"]["name"]: rule["spec"] for rule in self.infra.all(ADMIN_RULES)}
        self._differ("admin rule", self.book.admin, have_admin)

    def _plan(self) -> None:
        rules: list[tuple[str, Place, JSON, set[str], Any]] = []
        for tenant, side in self.world.tenants.items():
            for rule in side.all(WORKLOAD_RULES):
                metadata = rule["metadata"]
                version = metadata["uid"], metadata["generation"]
                rules.append(("tenant", (f"tenant-{tenant}", metadata["name"]), rule["spec"], {tenant}, version))
        for place, spec in self.book.api_rules.items():
            rules.append(("tenant", place, spec, {place[0].removeprefix("tenant-")}, ""))
        for name, spec in self.book.admin.items():
            match = set(self.live) if "*" in spec["tenantMatch"] else set(spec["tenantMatch"])
            rules.append(("admin", ("universe", name), spec, match, json.dumps(spec, sort_keys=True)))
        for kind, place, spec, tenants, version in rules:
            for tenant in sorted(tenants & self.live.keys()):
                for uid, pod in self.live[tenant].items():
                    self._consider(kind, place, spec, tenant=tenant, uid=uid, pod=pod, version=version)

    def _consider(self, kind: str, rule: Place, spec: JSON, *, tenant: str, uid: str, pod: JSON, version: Any) -> None:
        document = json.loads(json.dumps(workload_of(pod)))
        node = document["state"]["nodeName"]
        if not node:
            del document["state"]["nodeName"]
        terms = spec["workloadTerms"]
        if not any(all(holds(one, document) for one in term["matchExpressions"]) for term in terms):
            return
        workload = f"tenant-{tenant}", f"workload-{uid}"
        self.matched[rule] += 1
        same_node = spec["dpuSelectionPolicy"] == "SameNode"
        if same_node and not node:
            self.waiting.add((rule, workload))
            return
        name = f"{rule[1]}-{uid}" if kind == "tenant" else f"{rule[1]}-tenant-{tenant}-{uid}"
        place = rule[0], name
        there = self.pods.get(place)
        foreign = ("infra", "pods", *place) in self.book.foreign
        guest = (tenant, name) in self.book.guests and RESOURCE_OWNER in (
            (there or {"metadata": {}})["metadata"].get("labels") or {}
        )
        if foreign or guest:
            self.taken.add((rule, workload))
            return
        template = spec["template"]
        injected = {
            one["asAnnotation"]["name"]: rendered(value)
            for one in spec.get("workloadInfoInject", [])
            if (value := lookup(document, one["workloadKey"])) is not None
        }
        shown = {
            "labels": {**(template["metadata"].get("labels") or {}), COMPANION: kind, WORKLOAD_ID: uid},
            "annotations": {
                **(template["metadata"].get("annotations") or {}),
                **injected,
                RULE_NAME: rule[1],
                RULE: f"{rule[0]}/{rule[1]}",
                WORKLOAD: f"tenant-{tenant}/{uid}",
            },
            "image": template["spec"]["containers"][0]["image"],
            "placement": {
                **({HOST_LABEL: node} if same_node else {}),
                **({TENANT_LABEL: tenant} if kind == "tenant" or same_node else {}),
            },
        }
        made_of = version, pod["metadata"]["resourceVersion"]
        self.wanted[place] = Wanted(place, kind, rule, workload, shown, made_of)

    def _companions(self) -> None:
        have = {}
        for place, pod in self.ours.items():
            labels = pod["metadata"].get("labels") or {}
            if COMPANION in labels:
                have[place] = _shown(pod)
                if place in self.wanted:
                    self.now["companion", *place] = self.wanted[place].made_of, pod["metadata"]["uid"]
            elif RESOURCE_OWNER not in labels:
                self.differences.append(f"Pod {place}: nobody has asked for it")
        self._differ("companion", {place: one.shown for place, one in self.wanted.items()}, have)
        pairs = Counter(
            (pod["metadata"]["annotations"].get(RULE), pod["metadata"]["annotations"].get(WORKLOAD))
            for place, pod in self.ours.items()
            if place in have
        )
        self.differences += [f"companion of {pair}: {count} times" for pair, count in pairs.items() if count > 1]

    def _objects(self, tenant: str, side: Side) -> None:
        namespace = f"tenant-{tenant}"
        for asked, target in ((UVS_PODS, PODS), (UVS_CONFIG_MAPS, CONFIG_MAPS), (UVS_SECRETS, SECRETS)):
            want = {}
            for obj in side.all(asked):
                metadata, status = obj["metadata"], obj.get("status") or {}
                if (metadata.get("labels") or {}).get(MIRROR) == "true":
                    continue
                name = metadata["name"]
                blocked = target is PODS and (
                    (namespace, name) in self.wanted or ("infra", "pods", namespace, name) in self.book.foreign
                )
                if not blocked:
                    want[name] = _content(target, obj["spec"]["object"])
                told = (status.get("result"), status.get("observedGeneration"))
                self._differ(
                    f"{asked.kind} {name} status", ("error" if blocked else "success", metadata["generation"]), told
                )
            have = {}
            for obj in self.infra.all(target, namespace):
                if (obj["metadata"].get("labels") or {}).get(RESOURCE_OWNER) == "agent":
                    have[obj["metadata"]["name"]] = _content(target, obj)
                    self.now["object", target.plural, *_place(obj)] = "", obj["metadata"]["uid"]
            self._differ(f"{target.kind} in {namespace}", want, have)

    def _mirrors(self, tenant: str, side: Side) -> None:
        namespace = f"tenant-{tenant}"
        users = {obj["metadata"]["name"] for obj in side.all(UVS_PODS) if not _is_mirror(obj)}
        want = {}
        for place, pod in self.ours.items():
            if place[0] == namespace and COMPANION in (pod["metadata"].get("labels") or {}) and place[1] not in users:
                want[place[1]] = {
                    "rule": (pod["metadata"]["annotations"] or {}).get(RULE_NAME),
                    "object": _public(pod),
                    "result": "success",
                    "current": True,
                }
        have = {}
        for obj in side.all(UVS_PODS):
            metadata, status = obj["metadata"], obj.get("status") or {}
            if _is_mirror(obj):
                have[metadata["name"]] = {
                    "rule": (metadata.get("annotations") or {}).get(RULE_NAME),
                    "object": obj["spec"]["object"],
                    "result": status.get("result"),
                    "current": status.get("observedGeneration") == metadata["generation"],
                }
                companion = self.pods.get((namespace, metadata["name"]))
                if companion is not None:
                    self.now["mirror", tenant, metadata["name"]] = companion["metadata"]["uid"], metadata["uid"]
        self._differ(f"mirror in {tenant}", want, have)

    def _statuses(self) -> None:
        entries: dict[Place, dict[str, JSON]] = {_place(obj): {} for obj in self.infra.all(WORKLOADS)}
        by_pair = {(one.rule, one.workload): one for one in self.wanted.values()}
        for rule, workload in [*by_pair, *self.waiting, *self.taken]:
            one = by_pair.get((rule, workload))
            result = "error" if (rule, workload) in self.taken else "" if one is None else "success"
            entry = {"result": result, "pod": list(one.place) if one is not None else None}
            entries.setdefault(workload, {})["/".join(rule)] = entry
        have: dict[Place, dict[str, JSON]] = {}
        for obj in self.infra.all(WORKLOADS):
            rules = (obj.get("status") or {}).get("rules") or {}
            told = have.setdefault(_place(obj), {})
            for entry in [*(rules.get("tenant") or []), *(rules.get("admin") or [])]:
                status = entry["status"]
                ref = status.get("objRef")
                pod = [ref["namespace"], ref["name"]] if ref else None
                told[entry["id"]] = {"result": status.get("result"), "pod": pod}
        self._differ("status of Workload", entries, have)
        created = Counter(one.rule for one in self.wanted.values())
        broken = {rule for rule, _ in self.taken}
        stored = [(_place(obj), obj) for obj in (*self.infra.all(TENANT_RULES), *self.infra.all(ADMIN_RULES))]
        for tenant, side in self.world.tenants.items():
            stored += [((f"tenant-{tenant}", obj["metadata"]["name"]), obj) for obj in side.all(WORKLOAD_RULES)]
        for place, obj in stored:
            status = obj.get("status") or {}
            want = {
                "result": "error" if place in broken else "success",
                "matched": self.matched[place],
                "created": created[place],
                "observedGeneration": obj["metadata"]["generation"],
            }
            self._differ(f"status of {obj['kind']} {place}", want, {key: status.get(key) for key in want})

    def _foreign(self) -> None:
        for (cluster, plural, namespace, name), kept in self.book.foreign.items():
            side = self.infra if cluster == "infra" else self.world.tenants[cluster]
            group = {"pods": "", "configmaps": ""}[plural]
            obj = side.cluster.storage.get((group, plural), namespace, name)
            found = (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]) if obj else None
            self._differ(f"FOREIGN {plural} {namespace}/{name}", kept, found)
        for (tenant, name), kept_guest in self.book.guests.items():
            obj = self.world.tenants[tenant].cluster.storage.get((UVS_PODS.group, UVS_PODS.plural), "universe", name)
            self._differ(f"FOREIGN UVSPod {name}", kept_guest, guest_of(obj) if obj else None)

    def _steady(self) -> None:
        """What nobody has touched since the last look must be the very same object."""
        for key, (made_of, uid) in self.now.items():
            before = self.book.stable.get(key)
            contested = any(key[-1] == name for _, name in self.book.guests)
            if before is not None and before[0] == made_of and before[1] != uid and not contested:
                self.differences.append(f"REPLACED without need: {key} was {before[1]}, is {uid}")
