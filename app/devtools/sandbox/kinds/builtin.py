"""The resources that every cluster of the sandbox serves, and the registry that custom resources join.

Owns names, scopes and subresources; what a write to one of them does is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.devtools.sandbox.schemas.rules import RuleTree
    from app.wire import JSON

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

ScalePaths = tuple[str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class ApiResource:
    """One resource in one version. `schema` and `columns` are set for custom resources only."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    generation: bool = False
    """Whether the server counts changes of the desired state in `metadata.generation`."""
    virtual: bool = False
    """A question in the form of an object: only POST, nothing is stored."""
    schema: JSON | None = None
    columns: tuple[JSON, ...] | None = None
    custom: bool = False
    list_kind: str = ""
    warning: str = ""
    selectable: tuple[str, ...] = field(default=())
    rules: RuleTree | None = None
    """The validation rules of the schema."""
    embeds: bool = False
    """Whether the schema has embedded resources."""
    scale: ScalePaths = field(default=("spec.replicas", "status.replicas", ""))
    """Where an object has what its subresource `scale` shows: wanted and present replicas, and a selector of labels.

    A workload's selector is made from its spec.
    """

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        """Where the objects are stored; all versions of a resource share it."""
        return (self.group, self.plural)

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()

    @property
    def kind_of_list(self) -> str:
        return self.list_kind or f"{self.kind}List"


def _rows() -> list[ApiResource]:
    status = frozenset({"status"})
    everything = ("all",)

    def core(
        plural: str,
        kind: str,
        *short: str,
        namespaced: bool = True,
        sub: frozenset[str] = frozenset(),
        generation: bool = False,
        categories: tuple[str, ...] = (),
    ) -> ApiResource:
        return ApiResource(
            "",
            "v1",
            plural,
            kind,
            namespaced,
            short_names=short,
            subresources=sub,
            generation=generation,
            categories=categories,
        )

    def apps(plural: str, kind: str, short: str) -> ApiResource:
        return ApiResource(
            "apps",
            "v1",
            plural,
            kind,
            short_names=(short,),
            subresources=status if kind == "DaemonSet" else frozenset({"status", "scale"}),
            generation=True,
            categories=everything,
        )

    def rbac(plural: str, kind: str, *, namespaced: bool) -> ApiResource:
        return ApiResource("rbac.authorization.k8s.io", "v1", plural, kind, namespaced)

    def dra(
        plural: str,
        kind: str,
        *,
        namespaced: bool = True,
        sub: frozenset[str] = frozenset(),
        generation: bool = False,
    ) -> ApiResource:
        return ApiResource("resource.k8s.io", "v1", plural, kind, namespaced, subresources=sub, generation=generation)

    def question(group: str, plural: str, kind: str, *, namespaced: bool = False) -> ApiResource:
        return ApiResource(group, "v1", plural, kind, namespaced, virtual=True)

    authorization, registration = "authorization.k8s.io", "admissionregistration.k8s.io"
    return [
        core(
            "pods",
            "Pod",
            "po",
            sub=status
            | {"binding", "eviction", "ephemeralcontainers", "log", "exec", "attach", "portforward", "proxy"},
            generation=True,
            categories=everything,
        ),
        core("nodes", "Node", "no", namespaced=False, sub=status),
        core("namespaces", "Namespace", "ns", namespaced=False, sub=frozenset({"status", "finalize"})),
        core("configmaps", "ConfigMap", "cm"),
        core("secrets", "Secret"),
        core("services", "Service", "svc", sub=status, categories=everything),
        core("serviceaccounts", "ServiceAccount", "sa", sub=frozenset({"token"})),
        core("events", "Event", "ev"),
        core("endpoints", "Endpoints", "ep"),
        core("resourcequotas", "ResourceQuota", "quota", sub=status),
        core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", sub=status),
        ApiResource("coordination.k8s.io", "v1", "leases", "Lease"),
        apps("deployments", "Deployment", "deploy"),
        apps("replicasets", "ReplicaSet", "rs"),
        apps("daemonsets", "DaemonSet", "ds"),
        apps("statefulsets", "StatefulSet", "sts"),
        ApiResource("apps", "v1", "controllerrevisions", "ControllerRevision"),
        ApiResource("batch", "v1", "jobs", "Job", subresources=status, generation=True, categories=everything),
        ApiResource(
            "batch",
            "v1",
            "cronjobs",
            "CronJob",
            short_names=("cj",),
            subresources=status,
            generation=True,
            categories=everything,
        ),
        rbac("roles", "Role", namespaced=True),
        rbac("rolebindings", "RoleBinding", namespaced=True),
        rbac("clusterroles", "ClusterRole", namespaced=False),
        rbac("clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        ApiResource(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            namespaced=False,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=status,
            generation=True,
        ),
        ApiResource(
            registration,
            "v1",
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            namespaced=False,
            categories=("api-extensions",),
            generation=True,
        ),
        ApiResource(
            registration,
            "v1",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            namespaced=False,
            categories=("api-extensions",),
            generation=True,
        ),
        ApiResource(
            "policy",
            "v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            short_names=("pdb",),
            subresources=status,
            generation=True,
        ),
        ApiResource(
            "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",), generation=True
        ),
        ApiResource(
            "scheduling.k8s.io",
            "v1",
            "priorityclasses",
            "PriorityClass",
            namespaced=False,
            short_names=("pc",),
            generation=True,
        ),
        ApiResource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
        dra("resourceclaims", "ResourceClaim", sub=status),
        dra("resourceclaimtemplates", "ResourceClaimTemplate"),
        dra("deviceclasses", "DeviceClass", namespaced=False, generation=True),
        dra("resourceslices", "ResourceSlice", namespaced=False, generation=True),
        ApiResource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation=True),
        question(authorization, "subjectaccessreviews", "SubjectAccessReview"),
        question(authorization, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        question(authorization, "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
        question(authorization, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        question("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
        question("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ]


BUILTIN: tuple[ApiResource, ...] = tuple(_rows())
BUILTIN_GROUPS = frozenset(row.group for row in BUILTIN)
MISSING_GROUPS = frozenset(
    {
        "apiregistration.k8s.io",
        "autoscaling",
        "certificates.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "storage.k8s.io",
    }
)
"""Groups that an API server of Kubernetes has and the sandbox has not."""
CRDS = next(row for row in BUILTIN if row.kind == "CustomResourceDefinition")
PODS = BUILTIN[0]
NAMESPACES = next(row for row in BUILTIN if row.kind == "Namespace")


class Registry:
    """What a cluster serves now: the built-in resources and those of its CustomResourceDefinitions."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], ApiResource] = {}
        self._custom: dict[str, list[ApiResource]] = {}
        self.generation = 0
        """Changes whenever the set does; documents derived from it are cached under this number."""
        for row in BUILTIN:
            self._rows[(row.group, row.version, row.plural)] = row

    def find(self, group: str, version: str, plural: str) -> ApiResource | None:
        return self._rows.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> ApiResource | None:
        return next((row for row in self if (row.group, row.version, row.kind) == (group, version, kind)), None)

    def groups(self) -> dict[str, list[str]]:
        """Group to its versions, the preferred one first; the core group is left out."""
        found: dict[str, list[str]] = {}
        for row in self:
            versions = found.setdefault(row.group, [])
            if row.version not in versions:
                versions.append(row.version)
        found.pop("", None)
        return {group: sorted(versions, key=_version_order) for group, versions in found.items()}

    def replace_custom(self, name: str, rows: list[ApiResource]) -> None:
        """Serve `rows` as the versions of the CustomResourceDefinition `name`; an empty list ends it."""
        for row in self._custom.pop(name, []):
            self._rows.pop((row.group, row.version, row.plural), None)
        if rows:
            self._custom[name] = rows
        for row in rows:
            self._rows[(row.group, row.version, row.plural)] = row
        self.generation += 1

    def __iter__(self) -> Iterator[ApiResource]:
        return iter(list(self._rows.values()))


def _version_order(version: str) -> tuple[int, int, int]:
    """Stable before beta before alpha, newer before older: the order of the Kubernetes version priority."""
    body = version.removeprefix("v")
    for rank, word in enumerate(("", "beta", "alpha")):
        major, found, minor = body.partition(word) if word else (body, "", "0")
        if major.isdigit() and (minor.isdigit() or not found) and (not word or found):
            return (rank, -int(major), -int(minor or 0))
    return (3, 0, 0)
