"""Plays the injection example step by step against a sandbox: real manifests, real HTTP calls, each result checked.

Each step shows what one would type, sends the same request over TLS and holds the answer against what the step
promises; the first promise that fails ends the demo.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import yaml
from rich.console import Console
from rich.syntax import Syntax

from app import logs
from app.errors import ApiError, BerthError
from app.kube.client import KubeClient
from app.kube.resources import NETWORK_ATTACHMENTS, NODES, PODS
from app.kube.transport import connect
from app.runtime.sandbox import Sandbox
from app.wire import JSON

NODE = "host-a"
RESOURCE = "example.com/foo"
_MANIFESTS = resources.files("app.runtime") / "demo_manifests"
_SHOWN_SPEC = ("containers", "restartPolicy", "nodeSelector", "volumes")
_SHOWN_CONTAINER = ("name", "image", "command", "imagePullPolicy", "resources", "env", "volumeMounts")
EXPECTED = {"limits": {RESOURCE: "2"}, "requests": {RESOURCE: "2"}}


class DemoError(BerthError):
    """A step did not do what it promises."""


class Demo:
    """The steps of the example, in their order."""

    def __init__(self, client: KubeClient, console: Console) -> None:
        self._client = client
        self._attachment = (_MANIFESTS / "attachment.yaml").read_text()
        self._pod = (_MANIFESTS / "pod.yaml").read_text()
        self._console = console
        self._step = 0

    async def play(self) -> int:
        """Play every step and return how many held. Raises DemoError at the first that does not."""
        await self._add_capacity()
        await self._create_attachment()
        await self._create_pod()
        await self._watch_it_run()
        await self._refuse_a_typo()
        await self._clean_up()
        return self._step

    async def _add_capacity(self) -> None:
        self._title("A node offers 4 example.com/foo, as a device plugin would report them")
        path = f"/status/capacity/{RESOURCE.replace('/', '~1')}"
        self._command(
            'curl --header "Content-Type: application/json-patch+json" --request PATCH \\\n'
            f'     --data \'[{{"op": "add", "path": "{path}", "value": "4"}}]\' \\\n'
            f"     http://localhost:8001/api/v1/nodes/{NODE}/status"
        )
        patch = [{"op": "add", "path": path, "value": "4"}]
        node = await self._client.patch(NODES, NODE, patch, patch_type="json", subresource="status")
        self._holds(f"{NODE} has 4 {RESOURCE}", node["status"]["capacity"].get(RESOURCE) == "4")

    async def _create_attachment(self) -> None:
        self._title("A network attachment that names this resource")
        body = self._manifest(self._attachment)
        created = await self._client.create(NETWORK_ATTACHMENTS, body, namespace="default")
        self._say(f"networkattachmentdefinition.k8s.cni.cncf.io/{created['metadata']['name']} created")
        self._holds("the attachment passed Berth's check", bool(created["metadata"].get("uid")))

    async def _create_pod(self) -> None:
        self._title("A Pod that asks for the network twice, and for no resource")
        body = self._manifest(self._pod)
        created = await self._client.create(PODS, body, namespace="default")
        self._say(f"pod/{created['metadata']['name']} created. What it is now, against what was written:")
        self._diff(shown(body), shown(created))
        found = created["spec"]["containers"][0]["resources"]
        self._command("kubectl get pod webhook-demo -o json | jq .spec.containers[0].resources")
        self._say(json.dumps(found, indent=2, sort_keys=True))
        self._holds(f"requests and limits are 2 {RESOURCE}", found == EXPECTED)
        volumes = [volume["name"] for volume in created["spec"].get("volumes", [])]
        self._holds("the Pod can read its labels and annotations in /etc/podnetinfo", "podnetinfo" in volumes)

    async def _watch_it_run(self) -> None:
        self._title("The scheduler puts it on the node that has the resource")
        self._command("kubectl get pod webhook-demo -o wide")
        pod = await self._until(
            lambda found: found.get("status", {}).get("phase") == "Running", "webhook-demo", "is running"
        )
        self._say(f"webhook-demo   {pod['status']['phase']}   {pod['spec'].get('nodeName')}")
        self._holds(f"it runs on {NODE}", pod["spec"].get("nodeName") == NODE)

    async def _refuse_a_typo(self) -> None:
        self._title("A Pod with a mistake in its annotation is refused, and told why")
        text = self._pod.replace("webhook-demo", "typo").replace("foo-network, foo-network", "foo-network, Foo Network")
        wrong = self._manifest(text)
        try:
            await self._client.create(PODS, wrong, namespace="default")
        except ApiError as error:
            self._say(f"Error from server: {error}")
            self._holds("the message names the annotation", "k8s.v1.cni.cncf.io/networks" in str(error))
        else:
            raise DemoError("the Pod was admitted: want a denial")

    async def _clean_up(self) -> None:
        self._title("Cleaning up")
        self._command(
            "kubectl delete net-attach-def foo-network\nkubectl delete pod webhook-demo\n"
            'curl … --data \'[{"op": "remove", "path": "/status/capacity/example.com~1foo"}]\' …'
        )
        await self._client.delete(NETWORK_ATTACHMENTS, "foo-network", namespace="default")
        await self._client.delete(PODS, "webhook-demo", namespace="default")
        patch = [{"op": "remove", "path": f"/status/capacity/{RESOURCE.replace('/', '~1')}"}]
        await self._client.patch(NODES, NODE, patch, patch_type="json", subresource="status")
        await self._until(lambda found: not found, "webhook-demo", "is gone")
        self._holds("nothing is left", True)

    async def _until(self, condition: Callable[[JSON], bool], name: str, wish: str) -> JSON:
        try:
            async with asyncio.timeout(20):
                while True:
                    pod = await self._get_or_nothing(name)
                    if condition(pod):
                        return pod
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise DemoError(f"waited 20 s: want that pod {name} {wish}") from None

    async def _get_or_nothing(self, name: str) -> JSON:
        try:
            return await self._client.get(PODS, name, namespace="default")
        except ApiError as error:
            if error.not_found:
                return {}
            raise

    def _title(self, text: str) -> None:
        self._step += 1
        self._console.print(f"\n[bold]{self._step}. {text}[/]")

    def _command(self, text: str) -> None:
        for number, line in enumerate(text.split("\n")):
            self._console.print(f"{'$' if number == 0 else ' '} {line}", style="cyan", highlight=False, soft_wrap=True)

    def _manifest(self, text: str) -> JSON:
        """Show what is typed, and return what is sent."""
        self._command("kubectl create -f - <<EOF")
        self._console.print(Syntax(text.rstrip(), "yaml", background_color="default", word_wrap=False))
        self._console.print("EOF", style="cyan")
        body: JSON = yaml.safe_load(text)
        return body

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _diff(self, before: JSON, after: JSON) -> None:
        lines = difflib.unified_diff(
            _yaml(before).splitlines(), _yaml(after).splitlines(), "as written", "as stored", lineterm="", n=2
        )
        self._console.print(Syntax("\n".join(lines), "diff", background_color="default"))

    def _holds(self, promise: str, kept: bool) -> None:  # noqa: FBT001  the promise reads before its truth
        if not kept:
            raise DemoError(f"step {self._step}: want that {promise}, and it is not so")
        self._console.print(f"  [green]✓[/] {promise}", highlight=False)


async def run_demo(console: Console, *, log_level: str = "error") -> int:
    """Start a sandbox in a temporary directory, play the demo, stop the sandbox; 0 only if every step held."""
    logs.configure(log_level)
    with tempfile.TemporaryDirectory(prefix="berth-demo-") as directory:
        console.print("Starting a sandbox: an infra and two tenant clusters, Berth registered in each …")
        async with Sandbox(Path(directory), log_level=log_level).running() as clusters:
            tenant = next(cluster for cluster in clusters if cluster.name == "tenant1")
            console.print(f"Ready. The example runs in {tenant.name} (nodes {', '.join(tenant.nodes)}).")
            async with await connect(kubeconfig=str(tenant.kubeconfig)) as client:
                steps = await Demo(client, console).play()
    console.print(f"\n[bold green]The demo is done: all {steps} steps held.[/]")
    return 0


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


def _yaml(body: JSON) -> str:
    return yaml.safe_dump(body, sort_keys=True)
