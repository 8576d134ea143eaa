"""The injection example: a Pod asks for networks, and gets the resources that they need."""

from __future__ import annotations

import json
from importlib import resources

from app.devtools.demo.stage import DemoError, Stage, get_or_nothing
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NETWORK_ATTACHMENTS, NODES, PODS
from app.wire import JSON

NODE = "host-a"
RESOURCE = "example.com/foo"
POD = resources.files("app.devtools.demo") / "manifests" / "pod.yaml"
_SHOWN_SPEC = ("containers", "restartPolicy", "nodeSelector", "volumes")
_SHOWN_CONTAINER = ("name", "image", "command", "imagePullPolicy", "resources", "env", "volumeMounts")
EXPECTED = {"limits": {RESOURCE: "2"}, "requests": {RESOURCE: "2"}}


class Injection:
    """The steps of the example, in their order."""

    def __init__(self, client: KubeClient, stage: Stage) -> None:
        self._client, self._stage = client, stage

    async def play(self) -> None:
        """Play every step. Raises DemoError at the first that does not hold."""
        await self._add_capacity()
        await self._create_attachment()
        await self._create_pod()
        await self._watch_it_run()
        await self._refuse_a_typo()
        await self._clean_up()

    async def _add_capacity(self) -> None:
        await self._stage.title("A node offers 4 example.com/foo, as a device plugin would report them")
        path = f"/status/capacity/{RESOURCE.replace('/', '~1')}"
        self._stage.command(
            'curl --header "Content-Type: application/json-patch+json" --request PATCH \\\n'
            f'     --data \'[{{"op": "add", "path": "{path}", "value": "4"}}]\' \\\n'
            f"     http://localhost:8001/api/v1/nodes/{NODE}/status"
        )
        patch = [{"op": "add", "path": path, "value": "4"}]
        node = await self._client.patch(NODES, NODE, patch, patch_type="json", subresource="status")
        self._stage.holds(f"{NODE} has 4 {RESOURCE}", node["status"]["capacity"].get(RESOURCE) == "4")

    async def _create_attachment(self) -> None:
        await self._stage.title("A network attachment that names this resource")
        body = self._stage.manifest("attachment.yaml")
        created = await self._client.create(NETWORK_ATTACHMENTS, body, namespace="default")
        self._stage.say(f"networkattachmentdefinition.k8s.cni.cncf.io/{created['metadata']['name']} created")
        self._stage.holds("the attachment passed Berth's check", bool(created["metadata"].get("uid")))

    async def _create_pod(self) -> None:
        await self._stage.title("A Pod that asks for the network twice, and for no resource")
        body = self._stage.manifest("pod.yaml")
        created = await self._client.create(PODS, body, namespace="default")
        self._stage.say(f"pod/{created['metadata']['name']} created. What it is now, against what was written:")
        self._stage.diff(shown(body), shown(created))
        found = created["spec"]["containers"][0]["resources"]
        self._stage.command("kubectl get pod webhook-demo -o json | jq .spec.containers[0].resources")
        self._stage.say(json.dumps(found, indent=2, sort_keys=True))
        self._stage.holds(f"requests and limits are 2 {RESOURCE}", found == EXPECTED)
        volumes = [volume["name"] for volume in created["spec"].get("volumes", [])]
        self._stage.holds("the Pod can read its labels and annotations in /etc/podnetinfo", "podnetinfo" in volumes)

    async def _watch_it_run(self) -> None:
        await self._stage.title("The scheduler puts it on the node that has the resource")
        self._stage.command("kubectl get pod webhook-demo -o wide")
        pod = await self._stage.until(
            "pod webhook-demo is running",
            self._look,
            true=lambda found: found.get("status", {}).get("phase") == "Running",
        )
        self._stage.say(f"webhook-demo   {pod['status']['phase']}   {pod['spec'].get('nodeName')}")
        self._stage.holds(f"it runs on {NODE}", pod["spec"].get("nodeName") == NODE)

    async def _refuse_a_typo(self) -> None:
        await self._stage.title("A Pod with a mistake in its annotation is refused, and told why")
        text = POD.read_text().replace("webhook-demo", "typo")
        wrong = self._stage.typed(text.replace("foo-network, foo-network", "foo-network, Foo Network"))
        try:
            await self._client.create(PODS, wrong, namespace="default")
        except ApiError as error:
            self._stage.say(f"Error from server: {error}")
            self._stage.holds("the message names the annotation", "k8s.v1.cni.cncf.io/networks" in str(error))
        else:
            raise DemoError("the Pod was admitted: want a denial")

    async def _look(self) -> JSON:
        return await get_or_nothing(self._client, PODS, "webhook-demo", namespace="default")

    async def _clean_up(self) -> None:
        await self._stage.title("Cleaning up")
        self._stage.command(
            "kubectl delete net-attach-def foo-network\nkubectl delete pod webhook-demo\n"
            'curl … --data \'[{"op": "remove", "path": "/status/capacity/example.com~1foo"}]\' …'
        )
        await self._client.delete(NETWORK_ATTACHMENTS, "foo-network", namespace="default")
        await self._client.delete(PODS, "webhook-demo", namespace="default")
        patch = [{"op": "remove", "path": f"/status/capacity/{RESOURCE.replace('/', '~1')}"}]
        await self._client.patch(NODES, NODE, patch, patch_type="json", subresource="status")
        await self._stage.until("pod webhook-demo is gone", self._look, true=lambda found: not found)
        self._stage.holds("nothing is left", True)


def shown(pod: JSON) -> JSON:
    """The fields of a Pod that its author or Berth sets, without what every API server adds by itself."""
    spec = {key: value for key, value in pod["spec"].items() if key in _SHOWN_SPEC and value}
    spec["containers"] = [
        {key: value for key, value in container.items() if key in _SHOWN_CONTAINER and value}
        for container in pod["spec"]["containers"]
    ]
    # The API server mounts a token of its own where it has service accounts; that is not what is shown here.
    for parent in (spec, *spec["containers"]):
        for name in ("volumes", "volumeMounts"):
            kept = [item for item in parent.get(name, []) if not item["name"].startswith("kube-api-access-")]
            if kept:
                parent[name] = kept
            else:
                parent.pop(name, None)
    metadata = {key: value for key, value in pod["metadata"].items() if key in ("name", "annotations")}
    return {"apiVersion": pod["apiVersion"], "kind": pod["kind"], "metadata": metadata, "spec": spec}
