"""The UVS kinds: what each stands for in the infra cluster, and its manifest as it is sent and comes back. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from app.kube.resources import Resource
from app.tenancy.agent.faults import GatewayUnavailable
from app.tenancy.agent.views import ObjectView
from app.tenancy.messages import canonical
from app.tenancy.proto import resource_pb
from app.wire import decode_json, load_yaml
from app.workloads.model import UVS_CONFIG_MAPS, UVS_DAEMON_SETS, UVS_PODS, UVS_SECRETS


@dataclass(frozen=True, slots=True)
class Target:
    """A UVS kind and what it stands for in the infra cluster."""

    resource: Resource
    api_version: str
    kind: str

    @property
    def type(self) -> resource_pb.ResourceType:
        return resource_pb.ResourceType(api_version=self.api_version, kind=self.kind)


TARGETS = (
    Target(UVS_PODS, "v1", "Pod"),
    Target(UVS_DAEMON_SETS, "apps/v1", "DaemonSet"),
    Target(UVS_SECRETS, "v1", "Secret"),
    Target(UVS_CONFIG_MAPS, "v1", "ConfigMap"),
)


def manifest_of(view: ObjectView) -> bytes:
    """What the UVS object asks for, under its name. Raises ValueError where the manifest has another name."""
    manifest = decode_json(view.spec).get("object")
    if not isinstance(manifest, dict):
        raise ValueError("spec.object: want a manifest")  # noqa: TRY004  a fault of the object
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name") or view.name
    if name != view.name:
        raise ValueError(f"spec.object.metadata.name: {name!r:.80} must be equal to metadata.name, {view.name!r}")
    return canonical({**manifest, "metadata": {**metadata, "name": name}})


def names_of(manifests: list[bytes]) -> set[str]:
    """The names of the objects in an answer, each a document of YAML. Raises GatewayUnavailable for anything else.

    Long answers take their time: call it beside the event loop.
    """
    try:
        return {str(load_yaml(text)["metadata"]["name"]) for text in manifests}
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise GatewayUnavailable(f"gateway: an object in its answer cannot be read ({type(error).__name__})") from None
