"""What of Berth is installed: the Deployments of its roles, with the settings that they are given. Pure.

Goes by the chart's labels where there are some, and by what containers run where there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, get_origin

from pydantic import BaseModel

from app.doctor.objects import BY_CHART, COMPONENT, INSTANCE, PART_OF, RELEASE, labels, spec
from app.errors import UsageError
from app.registry import BY_NAME, ROLES, settings_of
from app.settings.source import S, comma_list, flag_names, flags_of, parsed_type
from app.wire import JSON
from app.wiring import SYSTEM_NAMESPACE, Role

_FALSE = frozenset({"0", "f", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Installed:
    """One role that runs here. `service_account` is the name; `container` is the one that runs the role."""

    role: str
    namespace: str
    name: str
    service_account: str
    container: JSON
    object: JSON

    @property
    def descriptor(self) -> Role:
        return BY_NAME[self.role]

    @property
    def subject(self) -> str:
        return f"Deployment {self.namespace}/{self.name}"

    @property
    def stopped(self) -> bool:
        """Whether it is scaled to 0."""
        return bool(spec(self.object).get("replicas") == 0)

    @property
    def pod_labels(self) -> dict[str, str]:
        """The labels by which it finds its Pods."""
        return (spec(self.object).get("selector") or {}).get("matchLabels") or {}

    @property
    def template_labels(self) -> dict[str, str]:
        return labels(spec(self.object).get("template"))

    @property
    def selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.pod_labels.items())

    @property
    def image(self) -> str:
        return str(self.container.get("image") or "")

    @property
    def words_path(self) -> str:
        """Where in the Deployment the last of its words are: the JSON pointer of a list."""
        index = _pod_spec(self.object)["containers"].index(self.container)
        return f"/spec/template/spec/containers/{index}/{'args' if self.container.get('args') else 'command'}"

    @property
    def home(self) -> str:
        """The namespace that it takes for its own: by flag, else by its environment, else the default."""
        if given := self.deployed.get("namespace"):
            return str(given)
        for variable in self.container.get("env") or []:
            if variable.get("name") in ("BERTH_NAMESPACE", "NAMESPACE"):
                return str(variable.get("value") or self.namespace)
        return SYSTEM_NAMESPACE

    @property
    def secrets(self) -> list[str]:
        volumes = _pod_spec(self.object).get("volumes") or []
        return [name for volume in volumes if (name := (volume.get("secret") or {}).get("secretName"))]

    @property
    def tls_secret(self) -> str:
        """The Secret with the certificate of the role, by where its flag says that it is mounted; "" without one."""
        path = PurePosixPath(str(self.deployed.get("tls_cert_file") or ""))
        mounts = self.container.get("volumeMounts") or ()
        volumes = {volume["name"]: volume for volume in _pod_spec(self.object).get("volumes") or ()}
        mounted = [volumes.get(mount["name"]) or {} for mount in mounts if path.is_relative_to(mount["mountPath"])]
        names = [(volume.get("secret") or {}).get("secretName") for volume in mounted]
        return next((name for name in (*names, *self.secrets) if name), "")

    @property
    def by_chart(self) -> bool:
        return BY_CHART in labels(self.object)

    @property
    def by_helm(self) -> bool:
        """Whether Helm keeps it in a release; not so where the chart's manifests were applied by something else."""
        return RELEASE in (self.object["metadata"].get("annotations") or {})

    @property
    def deployed(self) -> dict[str, Any]:
        """The settings that flags, else environment variables, of the container give, by field."""
        settings, words, given = settings_of(self.role), _words(self.container), {}
        variables = {
            entry["name"]: str(entry["value"])
            for container in _pod_spec(self.object).get("containers") or []
            for entry in container.get("env") or []
            if entry.get("value")
        }
        for field, option in flags_of(settings).items():
            info = settings.model_fields[field]
            kind = parsed_type(info, option)
            value = flag(words, flag_names(field, option)[0], switch=kind is bool)
            value = variables.get(f"BERTH_{field.upper()}") if value is None else value
            if value is not None:
                listed = get_origin(info.annotation) is tuple
                given[field] = value.lower() not in _FALSE if kind is bool else comma_list(value) if listed else value
        return given

    def setting(self, field: str) -> Any:
        """The value of a setting, as the container or else its default gives it."""
        return self.deployed.get(field, settings_of(self.role).model_fields[field].default)


def roles_in(deployments: Iterable[JSON], *, release: str) -> list[Installed]:
    """The roles that these Deployments run, but for those of another release."""
    ours = (deployment for deployment in deployments if labels(deployment).get(INSTANCE, release) == release)
    return [role for deployment in ours if (role := read_deployment(deployment)) is not None]


def read_deployment(deployment: JSON) -> Installed | None:
    """The role that a Deployment runs, None where it runs none of Berth's, or is listed without a namespace."""
    own, pod, metadata = labels(deployment), _pod_spec(deployment), deployment["metadata"]
    containers = pod.get("containers") or [{}]
    container = next((container for container in containers if _role_of(_words(container))), containers[0])
    role = _role_of(_words(container))
    if own.get(PART_OF) == "berth" and own.get(COMPONENT) in BY_NAME:
        role = own[COMPONENT]
    if role is None or not metadata.get("namespace"):
        return None
    account = pod.get("serviceAccountName") or "default"
    return Installed(role, metadata["namespace"], metadata["name"], account, container, deployment)


def settings_in_force(running: Sequence[Installed], kind: type[S], *, namespace: str) -> S:
    """The settings as the first of `running` has them; the defaults where it is empty.

    A value that Berth would refuse makes them the defaults: that Deployment does not run, and another check reports it.
    """
    home = {"namespace": namespace} if "namespace" in kind.model_fields else {}
    try:
        return kind.load(flags_in_force(running, kind) | home, environment=False)
    except UsageError:
        return kind.load({**home}, environment=False)


def flags_in_force(running: Sequence[Installed], kind: type[BaseModel]) -> dict[str, Any]:
    """The values that the first of `running` is given for fields of these settings; none where it is empty."""
    return {
        name: value
        for deployment in running[:1]
        for name, value in deployment.deployed.items()
        if name in kind.model_fields and value != ""
    }


def flag(arguments: Sequence[str], name: str, *, switch: bool = False) -> str | None:
    """The last value of a flag, with one dash or two; "true" or "false" for a switch, None where it is not given."""
    bare = name.lstrip("-")
    value = None
    for index, argument in enumerate(arguments):
        key, equals, given = argument.partition("=")
        key = key.lstrip("-") if key.startswith("-") else ""
        if switch and key == f"no-{bare}":
            value = "false"
        elif key == bare and equals:
            value = given
        elif key == bare:
            value = "true" if switch else next(iter(arguments[index + 1 : index + 2]), None)
    return value


def _words(container: JSON) -> tuple[str, ...]:
    return tuple(str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])])


def _role_of(words: tuple[str, ...]) -> str | None:
    """The role that `berth ROLE …` runs; the word `berth` is the image's where only arguments are given."""
    if words and words[0].rpartition("/")[2] == "berth":
        words = words[1:]
    return next((role.name for role in ROLES if words[:1] == (role.name,)), None)


def _pod_spec(deployment: JSON) -> dict[str, Any]:
    return spec(spec(deployment).get("template"))
