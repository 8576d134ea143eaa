"""What of Berth is installed: the Deployments of its roles.

Goes by the chart's labels where there are some, and by what containers run where there are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.doctor.arguments import flag
from app.doctor.cluster import Cluster
from app.doctor.objects import labels
from app.errors import ApiError
from app.kube.resources import DEPLOYMENTS
from app.registry import BY_NAME, ROLES
from app.wire import JSON
from app.workloads.model import SYSTEM_NAMESPACE

PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
INSTANCE = "app.kubernetes.io/instance"
"""The release that an object is of."""


@dataclass(frozen=True, slots=True)
class Installed:
    """One role that runs here. `service_account` is the name; `arguments` are those of its container."""

    role: str
    namespace: str
    name: str
    service_account: str
    arguments: tuple[str, ...]
    object: JSON

    @property
    def subject(self) -> str:
        return f"Deployment {self.namespace}/{self.name}"

    def argument(self, name: str, default: str = "") -> str:
        """The value that a flag has."""
        found = flag(self.arguments, name)
        return default if found is None else found

    def switch(self, name: str, *, default: bool = False) -> bool:
        """Whether a switch is on."""
        found = flag(self.arguments, name, switch=True)
        return default if found is None else found == "true"

    @property
    def pod_labels(self) -> dict[str, str]:
        """The labels by which it finds its Pods."""
        return ((self.object.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}

    @property
    def template_labels(self) -> dict[str, str]:
        """The labels of its Pods."""
        return labels((self.object.get("spec") or {}).get("template") or {})

    @property
    def selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.pod_labels.items())

    @property
    def image(self) -> str:
        """Of the container that runs the role."""
        return str(self._container.get("image") or "")

    @property
    def _container(self) -> JSON:
        containers: list[JSON] = _pod_spec(self.object).get("containers") or [{}]
        return next((one for one in containers if _words(one) == self.arguments), containers[0])

    @property
    def words_path(self) -> str:
        """Where in the Deployment the last of its words are: the JSON pointer of a list."""
        container = self._container
        index = _pod_spec(self.object)["containers"].index(container)
        return f"/spec/template/spec/containers/{index}/{'args' if container.get('args') else 'command'}"

    @property
    def home(self) -> str:
        """The namespace that it takes for its own: by flag, else by its environment, else the default."""
        if given := self.argument("--namespace"):
            return given
        for variable in self._container.get("env") or []:
            if variable.get("name") in ("BERTH_NAMESPACE", "NAMESPACE"):
                return str(variable.get("value") or self.namespace)
        return SYSTEM_NAMESPACE

    @property
    def secrets(self) -> list[str]:
        """The names of the Secrets that it mounts."""
        volumes = _pod_spec(self.object).get("volumes") or []
        return [name for volume in volumes if (name := (volume.get("secret") or {}).get("secretName"))]

    @property
    def by_chart(self) -> bool:
        return "helm.sh/chart" in labels(self.object)


async def installed(cluster: Cluster) -> list[Installed]:
    """The roles that run in the namespace of Berth, but for those of another release.

    Raises ApiError where Deployments may not be listed.
    """
    found = await cluster.listed(DEPLOYMENTS, namespace=cluster.namespace) or []
    ours = [one for one in found if labels(one).get(INSTANCE, cluster.release) == cluster.release]
    return [one for deployment in ours if (one := read_deployment(deployment)) is not None]


async def expected_roles(cluster: Cluster) -> frozenset[str]:
    """The roles that the user named, else those that are installed."""
    return cluster.roles or frozenset(one.role for one in await installed(cluster))


async def released(cluster: Cluster) -> bool:
    """Whether there is a release that Helm can upgrade; taken for granted where Deployments may not be listed."""
    try:
        return any(one.by_chart for one in await installed(cluster))
    except ApiError:
        return True


async def by_chart(cluster: Cluster) -> bool:
    """Whether the chart installed what is here; False where Deployments may not be listed."""
    try:
        return any(one.by_chart for one in await installed(cluster))
    except ApiError:
        return False


def read_deployment(deployment: JSON) -> Installed | None:
    """The role that a Deployment runs, None where it runs none of Berth's."""
    own = labels(deployment)
    containers = _pod_spec(deployment).get("containers") or []
    words = [_words(container) for container in containers]
    role, arguments = next(
        ((named, given) for given in words if (named := _role_of(given)) is not None), (None, words[0] if words else ())
    )
    if own.get(PART_OF) == "berth" and own.get(COMPONENT) in BY_NAME:
        role = own[COMPONENT]
    if role is None:
        return None
    metadata = deployment["metadata"]
    account = _pod_spec(deployment).get("serviceAccountName") or "default"
    return Installed(role, metadata["namespace"], metadata["name"], account, arguments, deployment)


def _words(container: JSON) -> tuple[str, ...]:
    return tuple(str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])])


def _role_of(words: tuple[str, ...]) -> str | None:
    """The role that `berth ROLE …` runs; the word `berth` is the image's where only arguments are given."""
    if words and words[0].rpartition("/")[2] == "berth":
        words = words[1:]
    return next((role.name for role in ROLES if words[: len(role.command)] == role.command), None)


def _pod_spec(deployment: JSON) -> dict[str, Any]:
    return ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
