"""The walk-through of the Workload API: what runs on hosts, and what rules make of it on DPUs, over three clusters."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from importlib import resources

from app.devtools.demo.calling import Caller
from app.devtools.demo.stage import Stage, get_or_nothing, read_manifest
from app.kube.client import KubeClient
from app.kube.resources import NODES, PODS, Resource
from app.placement.model import HOST_LABEL
from app.wire import JSON
from app.workloads.model import RULE_NAME, SYSTEM_NAMESPACE, UVS_PODS, WORKLOAD_RULES, WORKLOADS

RULE, ADMIN_RULE = "tenant1-rule1", "adminrule1"
HOME = "tenant-tenant1"
_SERVICE = "universe.admin.workload.v1.AdminWorkloadRuleService"
_TEMPLATE = resources.files("app.devtools.demo") / "manifests" / "adminrule1-template.json"
_RULES = "workloadrules.workload.universe.nvidia.com"


class Companions:
    """The steps of the walk-through, in their order. `caller` holds the cloud admin's certificate."""

    def __init__(
        self, stage: Stage, *, infra: KubeClient, tenant1: KubeClient, tenant2: KubeClient, caller: Caller
    ) -> None:
        self._stage, self._caller = stage, caller
        self._infra, self._tenant1, self._tenant2 = infra, tenant1, tenant2

    async def play(self) -> None:
        """Play every step. Raises DemoError at the first that does not hold."""
        await self._create_uvs_pod()
        await self._create_workloads()
        first = await self._create_rule()
        await self._show_status(first)
        second = await self._change_template(first)
        await self._label_the_workload(second)
        await self._match_more(second)
        await self._show_mirrors()
        await self._delete_workload()
        await self._delete_rule()
        await self._create_admin_rule()
        await self._delete_admin_rule()

    async def _create_uvs_pod(self) -> None:
        await self._stage.title("A tenant asks for a Pod in the infra cluster: a UVSPod")
        body = self._stage.manifest("tenant1-uvspod1.yaml", where="tenant1", verb="apply")
        await self._tenant1.create(UVS_PODS, body, namespace=SYSTEM_NAMESPACE)
        await self._result_of("tenant1-uvspod1")
        await self._pods_of_tenant1("tenant1-uvspod1")
        self._stage.holds(f"it runs in {HOME} of the infra cluster", True)

    async def _create_workloads(self) -> None:
        await self._stage.title("Pods start on the tenants' hosts")
        for client, where, name in (
            (self._tenant1, "tenant1", "tenant1-pod1"),
            (self._tenant1, "tenant1", "tenant1-pod2"),
            (self._tenant2, "tenant2", "tenant2-pod1"),
        ):
            self._stage.command(f"kubectl apply -f {name}.yaml", where=where)
            created = await client.create(PODS, read_manifest(f"{name}.yaml"), namespace="default")
            workload = f"workload-{created['metadata']['uid']}"
            await self._stage.until(
                f"{workload} is in tenant-{where}", self._getter(self._infra, WORKLOADS, workload, f"tenant-{where}")
            )
        self._stage.holds("each is a Workload in its tenant's namespace of the infra cluster", True)

    async def _create_rule(self) -> JSON:
        await self._stage.title("A rule for one of them: a companion Pod on a DPU")
        body = self._stage.manifest("tenant1-rule1.yaml", where="tenant1", verb="apply")
        await self._tenant1.create(WORKLOAD_RULES, body, namespace=SYSTEM_NAMESPACE)
        (companion, _) = await self._pods_of_tenant1(f"{RULE}-{await self._uid('tenant1-pod1')}", "tenant1-uvspod1")
        self._stage.holds("it carries the name of its rule", companion["metadata"]["annotations"][RULE_NAME] == RULE)
        others = (await self._infra.list_page(PODS, namespace="tenant-tenant2")).items
        self._stage.holds("tenant2 has a Pod in its namespace default too, and gets nothing", not others)
        return companion

    async def _show_status(self, companion: JSON) -> None:
        await self._stage.title("The Workload says which rules matched, and what they made")
        name = f"workload-{await self._uid('tenant1-pod1')}"
        self._stage.command(
            f"kubectl get -n {HOME} workloads.workload.infra.universe.nvidia.com {name} -o jsonpath={{.status}} | jq",
            where="icp",
        )
        found = await self._stage.until(
            "the Workload names the companion",
            self._getter(self._infra, WORKLOADS, name, HOME),
            true=lambda workload: bool(_references(workload)),
        )
        self._stage.say(json.dumps(found["status"], indent=2))
        wanted = {"apiVersion": "v1", "kind": "Pod", "name": companion["metadata"]["name"], "namespace": HOME}
        self._stage.holds("it names the companion", _references(found) == {f"{HOME}/{RULE}": wanted})

    async def _change_template(self, before: JSON) -> JSON:
        await self._stage.title("Another template: the companion is made anew, under the same name")
        change = [{"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "updated"}]
        await self._patch_rule(change)
        after = await self._stage.until(
            "the companion's container is called updated",
            self._getter(self._infra, PODS, before["metadata"]["name"], HOME),
            true=lambda pod: bool(pod) and pod["spec"]["containers"][0]["name"] == "updated" and _runs(pod),
        )
        self._stage.say(f"{after['metadata']['name']}   {after['spec']['containers'][0]['name']}")
        self._stage.holds("it is another Pod", after["metadata"]["uid"] != before["metadata"]["uid"])
        return after

    async def _label_the_workload(self, companion: JSON) -> None:
        await self._stage.title("A label on the workload reaches the running companion")
        name = "tenant-workload-labels"
        self._stage.say(f"{name}: {companion['metadata']['annotations'][name]}")
        self._stage.holds("there are no labels yet", companion["metadata"]["annotations"][name] == "{}")
        self._stage.command("kubectl label pod tenant1-pod1 foo=bar", where="tenant1")
        labels = {"metadata": {"labels": {"foo": "bar"}}}
        await self._tenant1.patch(PODS, "tenant1-pod1", labels, patch_type="merge", namespace="default")
        found = await self._stage.until(
            "the label is in the companion's annotation, and so in /workload-labels/labels",
            self._getter(self._infra, PODS, companion["metadata"]["name"], HOME),
            true=lambda pod: bool(pod) and pod["metadata"]["annotations"].get(name) == '{"foo":"bar"}',
        )
        self._stage.say(f"{name}: {found['metadata']['annotations'][name]}")
        self._stage.holds("it is the same Pod", found["metadata"]["uid"] == companion["metadata"]["uid"])

    async def _match_more(self, companion: JSON) -> None:
        await self._stage.title("A wider rule: a second companion, the first stays as it is")
        await self._patch_rule([{"op": "remove", "path": "/spec/workloadTerms/0/matchExpressions/1"}])
        uids = [await self._uid(name) for name in ("tenant1-pod1", "tenant1-pod2")]
        pods = await self._pods_of_tenant1(*(f"{RULE}-{uid}" for uid in uids), "tenant1-uvspod1")
        self._stage.holds("the first is the same Pod", companion["metadata"]["uid"] in _uids(pods))

    async def _show_mirrors(self) -> None:
        await self._stage.title("The tenant sees its companions: mirrors")
        self._stage.command(f"kubectl get uvspods.resource.universe.nvidia.com -n {SYSTEM_NAMESPACE}", where="tenant1")
        uids = [await self._uid(name) for name in ("tenant1-pod1", "tenant1-pod2")]
        wanted = {*(f"{RULE}-{uid}" for uid in uids), "tenant1-uvspod1"}

        async def successes() -> dict[str, str]:
            items = (await self._tenant1.list_page(UVS_PODS, namespace=SYSTEM_NAMESPACE)).items
            return {item["metadata"]["name"]: item.get("status", {}).get("result", "") for item in items}

        found = await self._stage.until(
            "every mirror says success",
            successes,
            true=lambda results: results == dict.fromkeys(wanted, "success"),
        )
        self._stage.table(("NAME", "RESULT", "MESSAGE"), *((name, found[name], "") for name in sorted(found)))
        self._stage.holds("RESULT is success", True)

    async def _delete_workload(self) -> None:
        await self._stage.title("A workload ends, and its companion with it")
        kept = f"{RULE}-{await self._uid('tenant1-pod1')}"
        self._stage.command("kubectl delete po tenant1-pod2", where="tenant1")
        await self._tenant1.delete(PODS, "tenant1-pod2", namespace="default")
        await self._pods_of_tenant1(kept, "tenant1-uvspod1")
        self._stage.holds("the other workload's companion stays", True)

    async def _delete_rule(self) -> None:
        await self._stage.title("The rule is deleted, and all that it made")
        self._stage.command(f"kubectl delete -n {SYSTEM_NAMESPACE} {_RULES} {RULE}", where="tenant1")
        await self._tenant1.delete(WORKLOAD_RULES, RULE, namespace=SYSTEM_NAMESPACE)
        await self._pods_of_tenant1("tenant1-uvspod1")
        self._stage.holds("the Pod that was asked for by itself stays", True)

    async def _create_admin_rule(self) -> None:
        await self._stage.title("The cloud admin's rule: both tenants, on the DPU of each workload's host")
        rule: JSON = {
            "id": ADMIN_RULE,
            "tenant_match": ["tenant1", "tenant2"],
            "data": {
                "orchestrator_type": 1,
                "resource_type": "v1/Pod",
                "dpu_selection_policy": "SameNode",
                "workload_terms": [
                    {
                        "match_expressions": [
                            {"key": "metadata.resourceNamespace", "operation": 1, "values": ["default"]}
                        ]
                    }
                ],
                "workload_info_inject": [{"key": "@", "as_annotation": {"name": "full-workload-info"}}],
                "rule_template": base64.b64encode(_TEMPLATE.read_bytes()).decode(),
            },
        }
        shown = {**rule, "data": {**rule["data"], "rule_template": "$RULE_TEMPLATE"}}
        self._stage.command("RULE_TEMPLATE=$(base64 -w0 adminrule1-template.json)")
        await self._call("Create", {"rule": rule}, shown={"rule": shown})
        wanted = {
            f"{ADMIN_RULE}-{HOME}-{await self._uid('tenant1-pod1')}": await self._node(self._tenant1, "tenant1-pod1"),
            f"{ADMIN_RULE}-tenant-tenant2-{await self._uid('tenant2-pod1', self._tenant2)}": await self._node(
                self._tenant2, "tenant2-pod1"
            ),
        }
        self._stage.command(f"kubectl get po -n {SYSTEM_NAMESPACE} -o wide | grep {ADMIN_RULE}", where="icp")
        pods = await self._pods(SYSTEM_NAMESPACE, set(wanted))
        for pod in pods:
            node = await self._infra.get(NODES, pod["spec"]["nodeName"])
            host = node["metadata"]["labels"][HOST_LABEL]
            self._stage.holds(f"{pod['spec']['nodeName']} sits in {host}", host == wanted[pod["metadata"]["name"]])
        told = json.loads(pods[0]["metadata"]["annotations"]["full-workload-info"])
        self._stage.holds("the whole workload is in its annotation", told["metadata"]["resourceName"] == "tenant1-pod1")

    async def _delete_admin_rule(self) -> None:
        await self._stage.title("And without the rule, without its Pods")
        await self._call("Delete", {"id": ADMIN_RULE})
        await self._pods(SYSTEM_NAMESPACE, set())
        self._stage.holds("nothing of it is left", True)

    async def _call(self, method: str, body: JSON, *, shown: JSON | None = None) -> None:
        files = "-cacert=ca.crt -cert=admin.crt -key=admin.key -servername api-gateway.local"
        # A body with a shell variable comes from a here-document, where the shell fills it in.
        data, rest = ("@", f" << EOM\n{json.dumps(shown, indent=2)}\nEOM") if shown else (f"'{json.dumps(body)}'", "")
        self._stage.command(
            f"grpcurl {files} \\\n-d {data} -proto universe/admin/workload/v1/admin_workload_rule.proto "
            f"{self._caller.gateway} \\\n{_SERVICE}.{method}{rest}"
        )
        await self._caller.call(f"{_SERVICE}.{method}", body)

    async def _patch_rule(self, change: list[JSON]) -> None:
        self._stage.command(
            f"kubectl patch {_RULES} -n {SYSTEM_NAMESPACE} --type=json \\\n-p '{json.dumps(change)}' {RULE}",
            where="tenant1",
        )
        await self._tenant1.patch(WORKLOAD_RULES, RULE, change, patch_type="json", namespace=SYSTEM_NAMESPACE)

    async def _result_of(self, name: str) -> None:
        self._stage.command(
            f"kubectl get uvspods.resource.universe.nvidia.com -n {SYSTEM_NAMESPACE} {name}", where="tenant1"
        )
        found = await self._stage.until(
            f"the result of {name} is success",
            self._getter(self._tenant1, UVS_PODS, name, SYSTEM_NAMESPACE),
            true=lambda uvs: uvs.get("status", {}).get("result") == "success",
        )
        status = found["status"]
        self._stage.table(("NAME", "RESULT", "MESSAGE"), (name, status["result"], status.get("message", "")))

    async def _pods_of_tenant1(self, *names: str) -> list[JSON]:
        self._stage.command(f"kubectl get po -n {HOME}", where="icp")
        return await self._pods(HOME, set(names))

    async def _pods(self, namespace: str, names: set[str]) -> list[JSON]:
        """Waits until exactly these Pods are in the namespace, and run."""

        async def look() -> list[JSON]:
            return (await self._infra.list_page(PODS, namespace=namespace)).items

        pods = await self._stage.until(
            f"these Pods and no others run in {namespace}: {', '.join(sorted(names)) or 'none'}",
            look,
            true=lambda found: {pod["metadata"]["name"] for pod in found} == names and all(map(_runs, found)),
        )
        rows = [(pod["metadata"]["name"], pod["status"]["phase"], pod["spec"]["nodeName"]) for pod in pods]
        if rows:
            self._stage.table(("NAME", "STATUS", "NODE"), *rows)
        else:
            self._stage.say(f"No resources found in {namespace} namespace.")
        return pods

    async def _uid(self, name: str, client: KubeClient | None = None) -> str:
        pod = await (client or self._tenant1).get(PODS, name, namespace="default")
        return str(pod["metadata"]["uid"])

    async def _node(self, client: KubeClient, name: str) -> str:
        pod = await client.get(PODS, name, namespace="default")
        return str(pod["spec"]["nodeName"])

    def _getter(
        self, client: KubeClient, resource: Resource, name: str, namespace: str
    ) -> Callable[[], Awaitable[JSON]]:
        return lambda: get_or_nothing(client, resource, name, namespace=namespace)


def _references(workload: JSON) -> dict[str, JSON]:
    """What the status of a Workload says that rules of its tenant made, by the rule."""
    rules = workload.get("status", {}).get("rules", {}).get("tenant", [])
    return {rule["id"]: rule["status"]["objRef"] for rule in rules if "objRef" in rule.get("status", {})}


def _runs(pod: JSON) -> bool:
    running = pod.get("status", {}).get("phase") == "Running"
    return running and not pod["metadata"].get("deletionTimestamp")


def _uids(pods: list[JSON]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}
