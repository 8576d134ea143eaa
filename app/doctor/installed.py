"""What of Berth is installed: the Deployments of its roles, and the webhook configurations that call it.

Goes by the chart's labels where there are some, and by what containers run and webhooks call where there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.doctor.cluster import Cluster
from app.errors import ApiError
from app.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.kube.selectors import label_selector_from_json
from app.permissions import ROLES, Role
from app.wire import JSON
from app.workloads.model import SYSTEM_NAMESPACE

PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
_SERVING_PATHS = ("/mutate", "/validate")
_KNOWN_KINDS = frozenset({"network-attachment-definitions", "workloadrules", "tenantworkloadrules"})


@dataclass(frozen=True, slots=True)
class Installed:
    """One role that runs here. `service_account` is the name; `arguments` are those of its container."""

    role: Role
    namespace: str
    name: str
    service_account: str
    arguments: tuple[str, ...]
    object: JSON

    @property
    def subject(self) -> str:
        return f"Deployment {self.namespace}/{self.name}"

    def argument(self, flag: str, default: str = "") -> str:
        """The value that a flag has, as `--flag=value` or in two words."""
        for at, word in enumerate(self.arguments):
            if word.startswith(f"{flag}="):
                return word.partition("=")[2]
            if word == flag and at + 1 < len(self.arguments):
                return self.arguments[at + 1]
        return default

    def switch(self, flag: str, *, default: bool = False) -> bool:
        """Whether a switch is on: `--flag` or `--no-flag`, `--flag=true` or `--flag=false`."""
        for word in reversed(self.arguments):
            if word in (flag, f"{flag}=true"):
                return True
            if word in (flag.replace("--", "--no-", 1), f"{flag}=false"):
                return False
        return default

    @property
    def pod_labels(self) -> dict[str, str]:
        """The labels by which it finds its Pods."""
        return ((self.object.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}

    @property
    def template_labels(self) -> dict[str, str]:
        """The labels of its Pods."""
        return _labels((self.object.get("spec") or {}).get("template") or {})

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
        return "helm.sh/chart" in _labels(self.object)


@dataclass(frozen=True, slots=True)
class Registered:
    """One webhook of a configuration, that calls Berth. `index` is its place in the configuration."""

    resource: Resource
    configuration: JSON
    index: int
    webhook: JSON

    @property
    def name(self) -> str:
        return str(self.configuration["metadata"]["name"])

    @property
    def mutating(self) -> bool:
        return self.resource == MUTATING_WEBHOOKS

    @property
    def subject(self) -> str:
        return f"{self.resource.kind} {self.name}, webhook {self.webhook.get('name')}"

    @property
    def service(self) -> tuple[str, str, int] | None:
        """Namespace, name and port of the Service that is called; None where a URL is."""
        called = (self.webhook.get("clientConfig") or {}).get("service")
        return (called["namespace"], called["name"], called.get("port") or 443) if called else None

    @property
    def url(self) -> str:
        return str((self.webhook.get("clientConfig") or {}).get("url") or "")

    @property
    def bundle(self) -> str:
        return str((self.webhook.get("clientConfig") or {}).get("caBundle") or "")

    @property
    def fails_closed(self) -> bool:
        return self.webhook.get("failurePolicy") != "Ignore"

    @property
    def conditions(self) -> list[JSON]:
        return self.webhook.get("matchConditions") or []

    @property
    def by_chart(self) -> bool:
        return "helm.sh/chart" in _labels(self.configuration)

    def covers(self, group: str, plural: str, operation: str) -> bool:
        """Whether its rules name this."""
        return any(
            {group, "*"} & set(rule.get("apiGroups") or [])
            and {plural, "*", "*/*"} & set(rule.get("resources") or [])
            and {operation, "*"} & set(rule.get("operations") or [])
            for rule in self.webhook.get("rules") or []
        )

    def selects_namespace(self, labels: dict[str, str]) -> bool:
        """Whether it is called for a namespace with these labels. A selector that is malformed selects all."""
        try:
            return label_selector_from_json(self.webhook.get("namespaceSelector") or {}).matches(labels)
        except ValueError:
            return True

    @property
    def installer_name(self) -> str:
        """The `--name` of `berth certs install`, where that made it; else ""."""
        for ending in ("-mutating-config", "-validating-config"):
            name = self.name.removesuffix(ending)
            if name != self.name and self.service is not None and self.service[1] == f"{name}-service":
                return name
        return ""


async def installed(cluster: Cluster) -> list[Installed]:
    """The roles that run in the namespace of Berth. Raises ApiError where Deployments may not be listed."""
    found = await cluster.listed(DEPLOYMENTS, namespace=cluster.namespace) or []
    return [one for deployment in found if (one := read_deployment(deployment)) is not None]


async def expected_roles(cluster: Cluster) -> frozenset[str]:
    """The roles that the user named, else those that are installed."""
    return cluster.roles or frozenset(one.role for one in await installed(cluster))


async def by_chart(cluster: Cluster) -> bool:
    """Whether the chart installed what is here; False where Deployments may not be listed."""
    try:
        return any(one.by_chart for one in await installed(cluster))
    except ApiError:
        return False


async def registered(cluster: Cluster) -> list[Registered]:
    """The webhooks that call Berth. Raises ApiError where configurations may not be listed."""
    found = []
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for configuration in await cluster.listed(resource) or []:
            found += list(_registered(cluster, resource, configuration))
    return found


def read_deployment(deployment: JSON) -> Installed | None:
    """The role that a Deployment runs, None where it runs none of Berth's."""
    labels = _labels(deployment)
    containers = _pod_spec(deployment).get("containers") or []
    words = [_words(container) for container in containers]
    role, arguments = next(
        ((named, given) for given in words if (named := _role_of(given)) is not None), (None, words[0] if words else ())
    )
    if labels.get(PART_OF) == "berth" and labels.get(COMPONENT) in ROLES:
        role = next(known for known in ROLES if known == labels[COMPONENT])
    if role is None:
        return None
    metadata = deployment["metadata"]
    account = _pod_spec(deployment).get("serviceAccountName") or "default"
    return Installed(role, metadata["namespace"], metadata["name"], account, arguments, deployment)


def _words(container: JSON) -> tuple[str, ...]:
    return tuple(str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])])


def _role_of(words: tuple[str, ...]) -> Role | None:
    """The role that `berth ROLE …` runs; the word `berth` is the image's where only arguments are given."""
    if words and words[0].rpartition("/")[2] == "berth":
        words = words[1:]
    if words[:2] == ("certs", "keep"):
        return "certificates"
    return next((role for role in ROLES if words[:1] == (role,) and role != "certificates"), None)


def _registered(cluster: Cluster, resource: Resource, configuration: JSON) -> Iterator[Registered]:
    metadata = configuration["metadata"]
    ours = metadata["name"] == cluster.release or _labels(configuration).get(PART_OF) == "berth"
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        one = Registered(resource, configuration, index, webhook)
        if ours or _calls_us(cluster, one):
            yield one


def _calls_us(cluster: Cluster, one: Registered) -> bool:
    """A Service in our namespace, called for what we serve, at the paths that we serve."""
    if one.service is None or one.service[0] != cluster.namespace:
        return False
    if (one.webhook["clientConfig"]["service"].get("path") or "/") not in _SERVING_PATHS:
        return False
    resources = {plural for rule in one.webhook.get("rules") or [] for plural in rule.get("resources") or []}
    return "pods" in resources if one.mutating else bool(resources & _KNOWN_KINDS)


def _labels(obj: JSON) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _pod_spec(deployment: JSON) -> dict[str, Any]:
    return ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
