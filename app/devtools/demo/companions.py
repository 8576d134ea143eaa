"""The walk-through of the Workload API: what runs on hosts, and what rules make of it on DPUs, over three clusters."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import app
from app.devtools.demo.calling import Caller
from app.devtools.demo.kubectl import Kubectl
from app.devtools.demo.overview import show_status
from app.devtools.demo.stage import MANIFESTS, Step, read_text
from app.kube.resources import NODES, PODS
from app.placement.model import HOST_LABEL
from app.wire import JSON
from app.workloads.model import RULE_NAME, SYSTEM_NAMESPACE, UVS_PODS, WORKLOAD_RULES, WORKLOADS

RULE, ADMIN_RULE = "tenant1-rule1", "adminrule1"
HOME = "tenant-tenant1"
_SERVICE = "universe.admin.workload.v1.AdminWorkloadRuleService"
_TEMPLATE = MANIFESTS / "adminrule1-template.json"
_PROTOS = Path(app.__file__).parent / "tenancy" / "proto"
_LABELS = "tenant-workload-labels"


class Companions:
    """The steps of the walk-through, in their order. `caller` holds the cloud admin's certificate."""

    def __init__(self, *, infra: Kubectl, tenant1: Kubectl, tenant2: Kubectl, caller: Caller) -> None:
        self._stage, self._caller = infra.stage, caller
        self._infra, self._tenant1, self._tenant2 = infra, tenant1, tenant2
        self._companion: JSON = {}
        self.steps = (
            Step("A tenant asks for a Pod in the infra cluster: a UVSPod", self._create_uvs_pod),
            Step("Pods start on the tenants' hosts", self._create_workloads),
            Step("A rule for one of them: a companion Pod on a DPU", self._create_rule),
            Step("The Workload says which rules matched, and what they made", self._show_workload),
            Step("Another template: the companion is replaced under the same name", self._change_template),
            Step("A label on the workload reaches the running companion", self._label_the_workload),
            Step("A wider rule: a second companion, the first stays as it is", self._match_more),
            Step("The tenant sees its companions: mirrors", self._show_mirrors),
            Step("A workload ends, and its companion with it", self._delete_workload),
            Step("The rule is deleted, and all that it made", self._delete_rule),
            Step("The cloud admin's rule: both tenants, on the DPU of each workload's host", self._create_admin_rule),
            Step("All of it on one screen", self._show_status),
            Step("And without the rule, without its Pods", self._delete_admin_rule),
        )

    async def _create_uvs_pod(self) -> None:
        name = "tenant1-uvspod1"
        await self._tenant1.create(read_text(f"{name}.yaml"), UVS_PODS, verb="apply")
        await self._tenant1.until(
            f"the result of {name} is success",
            UVS_PODS,
            name,
            lambda mirror: mirror.get("status", {}).get("result") == "success",
            namespace=SYSTEM_NAMESPACE,
        )
        await self._tenant1.get(UVS_PODS, name, namespace=SYSTEM_NAMESPACE)
        await self._pods_of_tenant1(name)
        self._stage.holds(f"it runs in {HOME} of the infra cluster", kept=True)

    async def _create_workloads(self) -> None:
        for kubectl, tenant, name in (
            (self._tenant1, "tenant1", "tenant1-pod1"),
            (self._tenant1, "tenant1", "tenant1-pod2"),
            (self._tenant2, "tenant2", "tenant2-pod1"),
        ):
            created = await kubectl.create_file(f"{name}.yaml", PODS, verb="apply")
            workload = f"workload-{created['metadata']['uid']}"
            wish = f"{workload} is in tenant-{tenant}"
            await self._infra.until(wish, WORKLOADS, workload, bool, namespace=f"tenant-{tenant}")
        self._stage.holds("each is a Workload in its tenant's namespace of the infra cluster", kept=True)

    async def _create_rule(self) -> None:
        await self._tenant1.create(read_text(f"{RULE}.yaml"), WORKLOAD_RULES, verb="apply")
        names = (f"{RULE}-{await self._uid('tenant1-pod1')}", "tenant1-uvspod1")
        (self._companion, _) = await self._pods_of_tenant1(*names)
        self._stage.holds("it carries the name of its rule", self._annotations[RULE_NAME] == RULE)
        others = (await self._infra.client.list_page(PODS, namespace="tenant-tenant2")).items
        self._stage.holds("tenant2 has a Pod in its namespace default too, and gets nothing", not others)

    @property
    def _annotations(self) -> JSON:
        found: JSON = self._companion["metadata"]["annotations"]
        return found

    @property
    def _name(self) -> str:
        """The name of the companion."""
        return str(self._companion["metadata"]["name"])

    async def _show_workload(self) -> None:
        name = f"workload-{await self._uid('tenant1-pod1')}"
        wish = "the Workload names the companion"
        found = await self._infra.until(wish, WORKLOADS, name, lambda obj: bool(_references(obj)), namespace=HOME)
        await self._infra.field(WORKLOADS, name, ".status", namespace=HOME)
        wanted = {"apiVersion": "v1", "kind": "Pod", "name": self._name, "namespace": HOME}
        self._stage.holds("it names the companion", _references(found) == {f"{HOME}/{RULE}": wanted})

    async def _change_template(self) -> None:
        await self._patch_rule([{"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "updated"}])
        before, name = self._companion["metadata"]["uid"], self._name
        self._companion = await self._infra.until(
            "the companion's container is called updated",
            PODS,
            name,
            lambda pod: bool(pod) and pod["spec"]["containers"][0]["name"] == "updated" and _runs(pod),
            namespace=HOME,
        )
        await self._infra.field(PODS, name, ".spec.containers[*].name", namespace=HOME)
        self._stage.holds("it is another Pod", self._companion["metadata"]["uid"] != before)

    async def _label_the_workload(self) -> None:
        path = f".metadata.annotations.{_LABELS}"
        before = await self._infra.field(PODS, self._name, path, namespace=HOME)
        self._stage.holds("there are no labels yet", before == "{}")
        await self._tenant1.mark("label", PODS, "tenant1-pod1", "foo", "bar")
        found = await self._infra.until(
            "the label is in the companion's annotation, and so in /workload-labels/labels",
            PODS,
            self._name,
            lambda pod: bool(pod) and pod["metadata"]["annotations"].get(_LABELS) == '{"foo":"bar"}',
            namespace=HOME,
        )
        await self._infra.field(PODS, self._name, path, namespace=HOME)
        self._stage.holds("it is the same Pod", found["metadata"]["uid"] == self._companion["metadata"]["uid"])

    async def _match_more(self) -> None:
        await self._patch_rule([{"op": "remove", "path": "/spec/workloadTerms/0/matchExpressions/1"}])
        uids = [await self._uid(name) for name in ("tenant1-pod1", "tenant1-pod2")]
        pods = await self._pods_of_tenant1(*(f"{RULE}-{uid}" for uid in uids), "tenant1-uvspod1")
        same = self._companion["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in pods}
        self._stage.holds("the first is the same Pod", same)

    async def _show_mirrors(self) -> None:
        uids = [await self._uid(name) for name in ("tenant1-pod1", "tenant1-pod2")]
        wanted = {*(f"{RULE}-{uid}" for uid in uids), "tenant1-uvspod1"}

        async def results() -> dict[str, str]:
            mirrors = (await self._tenant1.client.list_page(UVS_PODS, namespace=SYSTEM_NAMESPACE)).items
            return {mirror["metadata"]["name"]: mirror.get("status", {}).get("result", "") for mirror in mirrors}

        await self._stage.until(
            "every mirror says success", results, true=lambda found: found == dict.fromkeys(wanted, "success")
        )
        await self._tenant1.get(UVS_PODS, namespace=SYSTEM_NAMESPACE)
        self._stage.holds("RESULT is success", kept=True)

    async def _delete_workload(self) -> None:
        kept = f"{RULE}-{await self._uid('tenant1-pod1')}"
        await self._tenant1.delete(PODS, "tenant1-pod2")
        await self._pods_of_tenant1(kept, "tenant1-uvspod1")
        self._stage.holds("the other workload's companion stays", kept=True)

    async def _delete_rule(self) -> None:
        await self._tenant1.delete(WORKLOAD_RULES, RULE, namespace=SYSTEM_NAMESPACE)
        await self._pods_of_tenant1("tenant1-uvspod1")
        self._stage.holds("the Pod that was asked for by itself stays", kept=True)

    async def _create_admin_rule(self) -> None:
        rule = _admin_rule(base64.b64encode(_TEMPLATE.read_bytes()).decode())
        self._stage.command(f"RULE_TEMPLATE=$(base64 -w0 {_TEMPLATE})")
        await self._call("Create", {"rule": rule}, shown={"rule": _admin_rule("$RULE_TEMPLATE")})
        wanted = {}
        for kubectl, tenant in ((self._tenant1, "tenant1"), (self._tenant2, "tenant2")):
            pod = await kubectl.client.get(PODS, f"{tenant}-pod1", namespace="default")
            wanted[f"{ADMIN_RULE}-tenant-{tenant}-{pod['metadata']['uid']}"] = pod["spec"]["nodeName"]
        pods = await self._pods(SYSTEM_NAMESPACE, set(wanted))
        for pod in pods:
            node = await self._infra.client.get(NODES, pod["spec"]["nodeName"])
            host = node["metadata"]["labels"][HOST_LABEL]
            self._stage.holds(f"{pod['spec']['nodeName']} sits in {host}", host == wanted[pod["metadata"]["name"]])
        found = json.loads(pods[0]["metadata"]["annotations"]["full-workload-info"])
        self._stage.holds(
            "the whole workload is in its annotation", found["metadata"]["resourceName"] == "tenant1-pod1"
        )

    async def _show_status(self) -> None:
        await show_status(self._stage, self._infra.client, context="icp", companions=2)
        await show_status(self._stage, self._tenant1.client, context="tenant1")

    async def _delete_admin_rule(self) -> None:
        await self._call("Delete", {"id": ADMIN_RULE})
        await self._pods(SYSTEM_NAMESPACE, set())
        self._stage.holds("nothing of it is left", kept=True)

    async def _call(self, method: str, body: JSON, *, shown: JSON | None = None) -> None:
        """As grpcurl does. A body with a shell variable comes from a here-document, where the shell fills it in."""
        files = f"-cacert {self._caller.ca} -cert {self._caller.certificate} -key {self._caller.key}"
        protos = f"-import-path {_PROTOS} -proto universe/admin/workload/v1/admin_workload_rule.proto"
        data, rest = ("@", f" << EOM\n{json.dumps(shown, indent=2)}\nEOM") if shown else (f"'{json.dumps(body)}'", "")
        self._stage.command(
            f"grpcurl {files} \\\n  -servername {self._caller.server_name} {protos} \\\n"
            f"  -d {data} {self._caller.gateway} {_SERVICE}.{method}{rest}"
        )
        await self._caller.call(f"{_SERVICE}.{method}", body)

    async def _patch_rule(self, change: list[JSON]) -> None:
        await self._tenant1.patch(WORKLOAD_RULES, RULE, change, kind="json", namespace=SYSTEM_NAMESPACE)

    async def _pods_of_tenant1(self, *names: str) -> list[JSON]:
        return await self._pods(HOME, set(names))

    async def _pods(self, namespace: str, names: set[str]) -> list[JSON]:
        """Wait until exactly these Pods are in a namespace of the infra cluster, and run; then show them."""

        async def look() -> list[JSON]:
            return (await self._infra.client.list_page(PODS, namespace=namespace)).items

        pods = await self._stage.until(
            f"these Pods and no others run in {namespace}: {', '.join(sorted(names)) or 'none'}",
            look,
            true=lambda found: {pod["metadata"]["name"] for pod in found} == names and all(map(_runs, found)),
        )
        await self._infra.get(PODS, namespace=namespace, wide=True)
        return pods

    async def _uid(self, name: str) -> str:
        """Of a Pod of tenant1."""
        pod = await self._tenant1.client.get(PODS, name, namespace="default")
        return str(pod["metadata"]["uid"])


def _admin_rule(template: str) -> JSON:
    expression = {"key": "metadata.resourceNamespace", "operation": 1, "values": ["default"]}
    return {
        "id": ADMIN_RULE,
        "tenant_match": ["tenant1", "tenant2"],
        "data": {
            "orchestrator_type": 1,
            "resource_type": "v1/Pod",
            "dpu_selection_policy": "SameNode",
            "workload_terms": [{"match_expressions": [expression]}],
            "workload_info_inject": [{"key": "@", "as_annotation": {"name": "full-workload-info"}}],
            "rule_template": template,
        },
    }


def _references(workload: JSON) -> dict[str, JSON]:
    """What the status of a Workload says that rules of its tenant made, by the rule."""
    rules = workload.get("status", {}).get("rules", {}).get("tenant", [])
    return {rule["id"]: rule["status"]["objRef"] for rule in rules if "objRef" in rule.get("status", {})}


def _runs(pod: JSON) -> bool:
    running = pod.get("status", {}).get("phase") == "Running"
    return running and not pod["metadata"].get("deletionTimestamp")
