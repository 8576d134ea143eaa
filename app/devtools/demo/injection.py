"""The injection example: a Pod asks for networks, and gets the resources that they need."""

from __future__ import annotations

import json

from app.devtools.demo.kubectl import Kubectl
from app.devtools.demo.stage import DemoError, Step, read_text
from app.errors import ApiError
from app.kube.conditions import is_true
from app.kube.resources import NETWORK_ATTACHMENTS, NODES, PODS
from app.wire import JSON, load_yaml

NODE, POD = "host-a", "webhook-demo"
RESOURCE = "example.com/foo"
_CAPACITY = f"/status/capacity/{RESOURCE.replace('/', '~1')}"
_SHOWN_SPEC = ("containers", "restartPolicy", "nodeSelector", "volumes")
_SHOWN_CONTAINER = ("name", "image", "command", "imagePullPolicy", "resources", "env", "volumeMounts")
EXPECTED = {"limits": {RESOURCE: "2"}, "requests": {RESOURCE: "2"}}


class Injection:
    """The steps of the example, in their order."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl, self._stage = kubectl, kubectl.stage
        self.steps = (
            Step(f"A node offers 4 {RESOURCE}, as a device plugin would report them", self._add_capacity),
            Step("A network attachment that names this resource", self._create_attachment),
            Step("A Pod that asks for the network twice, and for no resource", self._create_pod),
            Step("The scheduler puts it on the node that has the resource", self._watch_it_run),
            Step("A Pod with a mistake in its annotation is refused, with the reason", self._refuse_a_typo),
            Step("Cleaning up", self._clean_up),
        )

    async def _add_capacity(self) -> None:
        patch = [{"op": "add", "path": _CAPACITY, "value": "4"}]
        node = await self._kubectl.patch(NODES, NODE, patch, kind="json", subresource="status")
        self._stage.holds(f"{NODE} has 4 {RESOURCE}", node["status"]["capacity"].get(RESOURCE) == "4")

    async def _create_attachment(self) -> None:
        (created,) = await self._kubectl.create(read_text("attachment.yaml"), NETWORK_ATTACHMENTS)
        self._stage.holds("the attachment passed Berth's check", bool(created["metadata"].get("uid")))

    async def _create_pod(self) -> None:
        text = read_text("pod.yaml")
        (created,) = await self._kubectl.create(text, PODS)
        self._stage.say("What it is now, against what was written:")
        self._stage.diff(shown(load_yaml(text)), shown(created))
        found = await self._kubectl.field(PODS, POD, ".spec.containers[0].resources")
        self._stage.holds(f"requests and limits are 2 {RESOURCE}", json.loads(found or "{}") == EXPECTED)
        volumes = [volume["name"] for volume in created["spec"].get("volumes", [])]
        self._stage.holds("the Pod can read its labels and annotations in /etc/podnetinfo", "podnetinfo" in volumes)

    async def _watch_it_run(self) -> None:
        pod = await self._kubectl.wait("condition=Ready", PODS, POD, lambda pod: is_true(pod["status"], "Ready"))
        await self._kubectl.get(PODS, POD, wide=True)
        self._stage.holds(f"it runs on {NODE}", pod["spec"].get("nodeName") == NODE)

    async def _refuse_a_typo(self) -> None:
        wrong = (
            read_text("pod.yaml").replace(POD, "typo").replace("foo-network, foo-network", "foo-network, Foo Network")
        )
        try:
            await self._kubectl.create(wrong, PODS)
        except ApiError as error:
            self._stage.holds("the message names the annotation", "k8s.v1.cni.cncf.io/networks" in str(error))
        else:
            raise DemoError("the Pod was admitted: want a denial")

    async def _clean_up(self) -> None:
        await self._kubectl.delete(PODS, POD)
        await self._kubectl.delete(NETWORK_ATTACHMENTS, "foo-network")
        await self._kubectl.patch(NODES, NODE, [{"op": "remove", "path": _CAPACITY}], kind="json", subresource="status")
        self._stage.holds("nothing is left", kept=True)


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
