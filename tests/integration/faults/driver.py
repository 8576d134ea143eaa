"""Changes and faults at random, from a seed; afterwards the clusters are compared with the oracle.

A round that fails prints seed, round and everything that was done in it and before, so that it can be followed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from app.devtools.sandbox.storage import Snapshot
from app.kube.resources import CONFIG_MAPS, PODS, Resource
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as admin_pb
from app.tenancy.proto.universe.admin.workload.v1.admin_workload_rule_pb2_grpc import AdminWorkloadRuleServiceStub
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from app.tenancy.proto.universe.workload.v1.workload_rule_pb2_grpc import WorkloadRuleServiceStub
from app.workloads.model import (
    COMPANION,
    UVS_CONFIG_MAPS,
    UVS_PODS,
    UVS_SECRETS,
    WORKLOAD_RULES,
)
from tests.integration.faults.faults import Faults
from tests.integration.faults.lag import behind
from tests.integration.faults.meddling import RULES, Meddling
from tests.integration.faults.oracle import Book, Oracle
from tests.integration.faults.reading import _is_mirror, _place, live
from tests.integration.faults.world import HOSTS, Side, World, persist
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
ADMINS, OBJECTS = ("a0", "a1"), ("u0", "u1", "u2")
MOST_PODS = 8
OPERATORS = {"In": 1, "NotIn": 2, "Exists": 3, "DoesNotExist": 4}

CHANGES = {
    "pod_created": 6,
    "pod_deleted": 3,
    "pod_labeled": 4,
    "pod_bound": 2,
    "pod_finished": 1,
    "rule_put": 5,
    "rule_deleted": 1,
    "object_put": 3,
    "object_deleted": 1,
    "admin_rule_put": 2,
    "admin_rule_deleted": 1,
    "mirror_deleted": 1,
    "mirror_edited": 1,
    "companion_deleted": 1,
    "companion_edited": 1,
    "companion_lost": 1,
    "stored_rule_deleted": 1,
    "object_lost": 3,
    "foreign_pod": 1,
}
MEDDLING = {"workload_deleted": 2, "guest": 2}
"""What is put right, or known to be settled, by the next resync alone."""
KILLS = {"kill_controller": 3, "kill_gateway": 3, "kill_agent": 4}
CUTS = {"cut": 4, "stall": 2, "refuse": 2, "restart_api": 2, "compact": 1}
RESTORES = {"restore_behind": 1, "restore_ahead": 1}
REPLICAS = {"second_controller": 3, "second_gateway": 2, "second_agent": 2, "kill_controller": 1, "kill_gateway": 1}


class Driver(Meddling, Faults):
    """`play` a number of rounds; `faults` maps the names of faults to their weights."""

    def __init__(
        self, world: World, seed: int, faults: dict[str, int], *, changes: dict[str, int] | None = None
    ) -> None:
        self.world, self.seed, self.faults, self.changes = world, seed, faults, changes or CHANGES
        self.random = random.Random(seed)
        self.book = Book()
        self.history: list[str] = []
        self.snapshots: dict[str, Snapshot] = {}
        self.number = 0
        self._owed: dict[str, JSON | None] = {}
        self._down: list[str] = []

    async def play(self, rounds: int) -> None:
        await self._prepare()
        for number in range(rounds):
            self.history.append(f"-- round {number}")
            sides = {"infra": self.world.infra, **self.world.tenants}
            self.snapshots = {name: side.cluster.storage.snapshot() for name, side in sides.items()}
            for _ in range(self.random.randint(4, 8)):
                await self._step(self.faults if self.random.random() < 0.3 else self.changes)
            await self._heal()
            await self.converged(number)

    async def change(self, number: int) -> None:
        """So many random changes, and no faults."""
        for _ in range(number):
            await self._step(self.changes)

    async def _step(self, weights: dict[str, int]) -> None:
        (name,) = self.random.choices(list(weights), weights=list(weights.values()))
        await getattr(self, f"_{name}")()
        await asyncio.sleep(self.random.choice((0, 0, 0.005, 0.03)))

    async def _prepare(self) -> None:
        """What others keep: a rule and a ConfigMap that no agent owns, and Pods that are nobody's business."""
        for tenant in self.world.tenants:
            namespace = f"tenant-{tenant}"
            await self._foreign_in(namespace, "bystander", {})
            # It bears the mark, but none of what a companion of ours has.
            await self._foreign_in("universe", f"impostor-{tenant}", {COMPANION: "admin"})
            body = {"metadata": {"name": "bystander"}, "data": {"k": "v"}}
            made = await self.world.infra.client.create(CONFIG_MAPS, body, namespace=namespace)
            self._keep("infra", CONFIG_MAPS, made)
            spec = self.spec()
            channel = self.world.channel(self.world.gateway_port(), tenant)
            data = json_format.ParseDict(data_of(spec), rule_pb.WorkloadRuleData())
            request = rule_pb.CreateWorkloadRuleRequest(rule=rule_pb.WorkloadRule(id="api", data=data))
            await WorkloadRuleServiceStub(channel).Create(request, timeout=PATIENCE)
            await channel.close()
            self.book.api_rules[namespace, "api"] = spec

    # What users do.

    def _pods(self, side: Side) -> list[JSON]:
        return [pod for pod in side.all(PODS) if live(pod)]

    async def _pod_created(self) -> None:
        name, side = self._tenant()
        if len(self._pods(side)) >= MOST_PODS:
            await self._pod_deleted()
            return
        self.number += 1
        labels = {"app": self.random.choice("abc"), "v": str(self.random.randrange(3))}
        spec: JSON = {"containers": [{"name": "c", "image": "nginx"}]}
        if self.random.random() < 0.6:
            spec["nodeName"] = self.random.choice(HOSTS)
        body = {"metadata": {"name": f"p{self.number}", "labels": labels}, "spec": spec}
        namespace = self.random.choice(("default", "default", "kube-public"))
        self._note(f"{name}: create Pod p{self.number} {labels} {spec.get('nodeName')}")
        await persist(lambda: side.client.create(PODS, body, namespace=namespace))

    async def _on_pod(self, what: str, request: Callable[[Side, str, str], Awaitable[Any]]) -> None:
        name, side = self._tenant()
        if pods := self._pods(side):
            namespace, pod = _place(self.random.choice(pods))
            self._note(f"{name}: {what} Pod {pod}")
            await persist(lambda: request(side, namespace, pod))

    async def _pod_deleted(self) -> None:
        await self._on_pod("delete", lambda side, namespace, pod: side.client.delete(PODS, pod, namespace=namespace))

    async def _pod_labeled(self) -> None:
        labels = self.random.choice(
            ({"v": str(self.random.randrange(4))}, {"app": self.random.choice("abc")}, {"v": None})
        )
        body = {"metadata": {"labels": labels}}
        await self._on_pod(
            f"label {labels}",
            lambda side, namespace, pod: side.client.patch(PODS, pod, body, patch_type="merge", namespace=namespace),
        )

    async def _pod_finished(self) -> None:
        body = {"status": {"phase": self.random.choice(("Succeeded", "Failed"))}}
        await self._on_pod(
            "finish",
            lambda side, namespace, pod: side.client.patch(
                PODS, pod, body, patch_type="merge", namespace=namespace, subresource="status"
            ),
        )

    async def _pod_bound(self) -> None:
        name, side = self._tenant()
        unbound = [pod for pod in self._pods(side) if not pod["spec"].get("nodeName")]
        if unbound:
            namespace, pod = _place(self.random.choice(unbound))
            host = self.random.choice(HOSTS)
            self._note(f"{name}: bind Pod {pod} to {host}")
            target = {"apiVersion": "v1", "kind": "Node", "name": host}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
            await persist(lambda: side.client.post(f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", body))

    def spec(self, *, trusted: bool = False) -> JSON:
        app = {"key": "state.extra.labels.app", "operator": "In", "values": sorted(self.random.sample("abc", 2))}
        choices = (
            app,
            {"key": "metadata.resourceNamespace", "operator": "In", "values": ["default"]},
            {"key": "state.extra.labels.v", "operator": "Exists"},
            {"key": "state.extra.labels.v", "operator": "NotIn", "values": ["0", "1"]},
            {"key": "state.extra.labels.v", "operator": "DoesNotExist"},
        )
        terms = [{"matchExpressions": self.random.sample(choices, self.random.randint(1, 2))}]
        if self.random.random() < 0.3:
            terms.append({"matchExpressions": [app]})
        container = {"name": "c", "image": f"nginx:{self.random.randrange(3)}"}
        metadata = {"labels": {"made": "here"}, "annotations": {"v": "template"}}
        spec: JSON = {
            "resourceType": "v1/Pod",
            "workloadTerms": terms,
            "dpuSelectionPolicy": self.random.choice(("Any", "SameNode")),
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}},
        }
        if trusted:
            spec["template"]["spec"]["hostNetwork"] = True
        keys = {"v": "state.extra.labels.v", "node": "state.nodeName", "all": "state.extra", "ready": "state.ready"}
        names = sorted(self.random.sample(sorted(keys), self.random.randint(0, 3)))
        if names:
            spec["workloadInfoInject"] = [{"workloadKey": keys[n], "asAnnotation": {"name": n}} for n in names]
        return spec

    async def _rule_put(self) -> None:
        name, side = self._tenant()
        rule, spec = self.random.choice(RULES), self.spec()
        self._note(f"{name}: put rule {rule} {_brief(spec)}")
        await self.put(side, WORKLOAD_RULES, rule, spec)

    async def _rule_deleted(self) -> None:
        await self._delete_one(WORKLOAD_RULES)

    async def _object_put(self) -> None:
        name, side = self._tenant()
        resource, obj = self.random.choice((UVS_PODS, UVS_CONFIG_MAPS, UVS_SECRETS)), self.random.choice(OBJECTS)
        content = str(self.random.randrange(3))
        manifest: JSON = {"apiVersion": "v1", "kind": resource.kind.removeprefix("UVS"), "metadata": {"name": obj}}
        if resource is UVS_PODS:
            manifest["spec"] = {"containers": [{"name": "c", "image": f"nginx:{content}"}]}
        else:
            manifest["data"] = {"k": ["MA==", "MQ==", "Mg=="][int(content)]}
        self._note(f"{name}: put {resource.kind} {obj} = {content}")
        await self.put(side, resource, obj, {"object": manifest})

    async def _object_deleted(self) -> None:
        await self._delete_one(self.random.choice((UVS_PODS, UVS_CONFIG_MAPS, UVS_SECRETS)))

    async def put(self, side: Side, resource: Resource, name: str, spec: JSON) -> None:
        body = resource.body({"name": name}, spec=spec)
        change = [{"op": "replace", "path": "/spec", "value": spec}]
        made = await persist(lambda: side.client.create(resource, body, namespace="universe"))
        if made is None:
            await persist(lambda: side.client.patch(resource, name, change, patch_type="json", namespace="universe"))

    async def _delete_one(self, resource: Resource) -> None:
        name, side = self._tenant()
        names = [obj["metadata"]["name"] for obj in side.all(resource) if not _is_mirror(obj)]
        names = [each for each in names if (name, each) not in self.book.guests]
        if names:
            chosen = self.random.choice(names)
            self._note(f"{name}: delete {resource.kind} {chosen}")
            self.book.forget(chosen)
            await persist(lambda: side.client.delete(resource, chosen, namespace="universe"))

    async def _admin_rule_put(self) -> None:
        match = self.random.choice((["*"], ["tenant1"], ["tenant1", "tenant2"], ["tenant2"]))
        rule, spec = self.random.choice(ADMINS), {**self.spec(trusted=True), "tenantMatch": match}
        self._note(f"admin: put rule {rule} {match} {_brief(spec)}")
        self.book.admin[rule] = self._owed[rule] = spec
        await self._pay()

    async def _admin_rule_deleted(self) -> None:
        if self.book.admin:
            rule = self.random.choice(sorted(self.book.admin))
            self._note(f"admin: delete rule {rule}")
            del self.book.admin[rule]
            self._owed[rule] = None
            self.book.forget(rule)
            await self._pay()

    async def _pay(self) -> None:
        """What the admin wants and the gateway has not taken yet."""
        channel = await self.world.admin_channel()
        if channel is None:
            return
        stub = AdminWorkloadRuleServiceStub(channel)
        for rule, spec in list(self._owed.items()):
            try:
                if spec is None:
                    await stub.Delete(admin_pb.DeleteRequest(id=rule), timeout=10)
                else:
                    message = {"id": rule, "tenant_match": spec["tenantMatch"]}
                    request = admin_pb.UpdateRequest(rule=json_format.ParseDict(message, admin_pb.AdminWorkloadRule()))
                    json_format.ParseDict(data_of(spec), request.rule.data)
                    await stub.Update(request, timeout=10)
            except grpc.aio.AioRpcError as error:
                if not (spec is None and error.code() is grpc.StatusCode.NOT_FOUND):
                    if error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL):
                        raise
                    return
            del self._owed[rule]

    # The end of a round.

    async def _heal(self) -> None:
        """One of each role, and no more faults."""
        for role in self._down:
            await self.world.start(role)
        self._down.clear()
        for role in self.world.roles:
            lives = self.world.lives.get(role, [])
            while len(lives) > 1 and (role.startswith("agent") or self.random.random() < 0.5):
                life = self.random.choice(lives)
                self.world.kill(life)
                self._note(f"end of {life.name}")
            if not lives:
                await self.world.start(role)

    async def converged(self, number: int = 0) -> None:
        """Wait until everything is as the oracle says and stays so for a moment; fails the test if it never is."""
        differences: list[str] = []
        look: Oracle | None = None
        sides, seen = (self.world.infra, *self.world.tenants.values()), list[int]()
        quiet = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while quiet < 2:
                    await asyncio.sleep(0.03)
                    await self._pay()
                    versions = [side.cluster.storage.version for side in sides]
                    if look is None or versions != seen:  # what nobody has written to looks the same
                        look, seen = Oracle(self.world, self.book), versions
                    differences = [*look.differences, *(f"admin: {rule} not taken yet" for rule in self._owed)]
                    differences = differences or behind(self.world)
                    quiet = 0 if differences else quiet + 1
        if look is None or quiet < 2:
            lives = [f"{life.name}: {life.waiting}" for lives in self.world.lives.values() for life in lives]
            text = "\n".join((*differences[:30], "", *lives, "", *self.history[-120:]))
            pytest.fail(f"seed {self.seed}, round {number}: not converged\n{text}")
        self.book.stable = look.now


def data_of(spec: JSON) -> JSON:
    """A rule's spec as the JSON of its message."""
    terms = [
        {
            "match_expressions": [
                {"key": one["key"], "operation": OPERATORS[one["operator"]], "values": one.get("values", [])}
                for one in term["matchExpressions"]
            ]
        }
        for term in spec["workloadTerms"]
    ]
    return {
        "orchestrator_type": 1,
        "resource_type": spec["resourceType"],
        "dpu_selection_policy": spec["dpuSelectionPolicy"],
        "workload_terms": terms,
        "workload_info_inject": [
            {"key": one["workloadKey"], "as_annotation": {"name": one["asAnnotation"]["name"]}}
            for one in spec.get("workloadInfoInject", [])
        ],
        "rule_template": base64.b64encode(json.dumps(spec["template"]).encode()).decode(),
    }


def _brief(spec: JSON) -> str:
    terms = [
        " & ".join(
            f"{one['key'].rpartition('.')[2]} {one['operator']} {one.get('values', '')}"
            for one in term["matchExpressions"]
        )
        for term in spec["workloadTerms"]
    ]
    return f"{spec['dpuSelectionPolicy']} {spec['template']['spec']['containers'][0]['image']} [{' | '.join(terms)}]"
