"""Descriptors, data alone: what the rest of Berth has to know of a wing and of a role.

What a reference (`"module:name"`) names is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

Cluster = str
"""Where kinds are defined: a name that a wing declares in `clusters`."""
Scope = str
"""Where a permission holds: "cluster" for everywhere, "release" for its namespace, or a name that a wing declares in
`scopes`.
"""
ReviewKind = str
"""What is reviewed: a name that a wing declares in `reviewed`."""
READ = ("get", "list", "watch")
OFF = "off"
"""The value of a setting that turns off what it names; as False, where a setting has to be on."""
SYSTEM_NAMESPACE = "universe"
"""Where the objects of the cloud admin are, in the infra cluster and in those of tenants."""
REGISTRATION_DELETED = "RegistrationDeleted"
"""The reason of the Event, in namespace `default`, that a webhook configuration was deleted."""
CLUSTER_RULE = "$KUBECONFIG, else in-cluster, else ~/.kube/config"
"""Where the API server is looked for if `--kubeconfig` does not say it, in words for help."""
RELEASE_NAMESPACE = "berth-system"
"""The namespace that the documents install a release into."""


@dataclass(frozen=True, slots=True)
class Permission:
    """These verbs on these resources of a group; with `names`, on those objects alone.

    `when` are the settings of the role that have to be on, joined by commas; `field=item` is on where the value is the
    item, or the list has it. A name `{field}` stands for the values of that setting, and so does a resource, whose
    values are PLURAL.GROUP.
    """

    scope: Scope
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    when: str = ""


def is_on(when: str, settings: Mapping[str, Any]) -> bool:
    """Whether one condition of a `Permission.when` holds with these settings."""
    name, equals, item = when.partition("=")
    value = settings[name]
    if not equals:
        return value not in (OFF, "") and bool(value)
    return bool(value == item) if isinstance(value, str) else item in value


Permissions = Mapping[str, tuple[Permission, ...]]
"""What a wing needs, by role, and by controller of the controller role."""


@dataclass(frozen=True, slots=True)
class ReviewRule:
    """Objects that an API server sends for review when they are written."""

    kind: ReviewKind
    group: str
    version: str
    resources: tuple[str, ...]
    operations: tuple[str, ...] = ("CREATE", "UPDATE")


@dataclass(frozen=True, slots=True)
class Term:
    """A CEL expression. `{values}` in it is the list of texts of the source `values`; without any it is left out.

    Here and below, a source is a path in the chart's values, or a template of the chart. `when` are the sources that
    have to be on, joined by commas; with `!` before it, one has to be off, with `=item` behind it, it has to be the
    item, or a list with it.
    """

    expression: str
    values: str = ""
    when: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A match condition of a webhook: one of the terms is true. Without terms: what `Wing.asks` says of a Pod."""

    name: str
    terms: tuple[Term, ...] = ()
    when: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a label selector. `source` has the values in place of `values`."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()
    source: str = ""
    when: str = ""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook that the chart registers as `<name>.berth.dev`: an API server sends it what the rules of a kind say.

    `values` is the key below `webhook.webhooks` that has its failurePolicy and timeoutSeconds. `namespaces` and
    `objects` are its selectors. `proven` is for answers that follow from the user of the request: the path ends with
    the token of callers. `unproven` says what happens to objects whose calls lack it, where that is more than a shorter
    answer.
    """

    name: str
    kind: ReviewKind
    values: str
    scope: Literal["Namespaced", "*"] = "Namespaced"
    namespaces: tuple[Requirement, ...] = ()
    objects: tuple[Requirement, ...] = ()
    conditions: tuple[Condition, ...] = ()
    when: str = ""
    proven: bool = False
    unproven: str = ""


NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label of every namespace that has its name."""
NEVER_ASKED = Requirement(NAMESPACE_NAME, "NotIn", source="berth.neverAsked")
"""Berth itself, and what it takes to run it, must start without Berth. No values can add to these namespaces."""
EXEMPT = Requirement(NAMESPACE_NAME, "NotIn", source="berth.exemptNamespaces")
"""The same, and what the values add."""
CONFINED = "webhook.args.confineTenants"
CONDITIONS = "webhook.matchConditions.enabled"


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller of the controller role; `build` is a reference to a function that makes it.

    `needs` is the cluster whose kinds have to be defined where it runs. One that is not `usual` runs where it is asked
    for. What it watches and which reconcilers it has, its kit says. `next` are the commands that come next where it
    runs, as in `Chart`.
    """

    name: str
    build: str
    needs: Cluster = "infra"
    usual: bool = True
    next: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wing:
    """A feature: a folder of `app`, and all that the rest of Berth has to know of it.

    References: `kinds` to its kinds (a tuple of `Resource`), by the cluster that defines them; `reviews` to a tuple of
    `ReviewRule`, `webhooks` to a tuple of `Webhook`; `asks` to a tuple of the annotations (texts) and `Term`s by which
    a Pod asks for something of it; `labels` to a function from `app.doctor.cluster.Cluster` to the labels by which Pods
    ask there, each with the object that says so; `parts` to the function from `app.admission.parts.Context` to its
    `Parts`, made where the setting `on` of the webhook is on; `permissions` to its `Permissions`; `settings` to what it
    adds to the settings of roles, by role; `checks` to checks of the doctor, `status` to sections of
    `berth status`, `why` to its judges (`app.why.model:Judge`) by the `Resource` whose objects they know, `views` to
    views of `berth ui` (`app.ui.view:View`).

    Names that it declares, for itself and for others: `clusters` with their titles, "" for one whose kinds are defined
    by others; `reviewed`, kinds of reviews, each with "mutate" or "validate"; `scopes` with their namespace, `{field}`
    for the value of that setting of the controller role, "" where there are several.

    `paths` are those of a peer under which reviews are answered too, each with "mutate" or "validate". `arguments` are
    what the chart writes on the command lines of roles for it; `egress` what roles call for it, as in `Chart`.
    `metrics` are modules with metrics, each with the roles that set them. `roles` are those that exist for this wing
    alone.
    """

    name: str
    clusters: Mapping[Cluster, str] = field(default_factory=dict)
    scopes: Mapping[Scope, str] = field(default_factory=dict)
    reviewed: Mapping[ReviewKind, Literal["mutate", "validate"]] = field(default_factory=dict)
    kinds: Mapping[Cluster, str] = field(default_factory=dict)
    reviews: str = ""
    webhooks: str = ""
    asks: str = ""
    labels: str = ""
    parts: str = ""
    on: str = ""
    paths: Mapping[str, str] = field(default_factory=dict)
    controllers: tuple[Controller, ...] = ()
    permissions: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, tuple[Argument, ...]] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    why: str = ""
    views: tuple[str, ...] = ()
    egress: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()


@dataclass(frozen=True, slots=True)
class Port:
    """A port that a role listens on, and the port of its Service that leads to it."""

    name: str
    number: int
    service: int


@dataclass(frozen=True, slots=True)
class Argument:
    """A flag that the chart writes for a field of the settings: with `text`, or with what `source` says.

    A source is a path in the chart's values, or a template of the chart, whose name begins with `berth.`. Without one
    the value is the one with the name of the field below `<role>.args`. The flag is left out where `when` is off,
    and where the value is empty, unless it is written `always`.
    """

    field: str
    source: str = ""
    text: str = ""
    when: str = ""
    always: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """How the chart runs a role: `kind` is the kind of its workload, `enabled` the source that turns it on.

    `namespace` is the source of its namespace, that of the release without one. With `template` the workload is no
    object but a text, under this key of a ConfigMap, out of which a controller of the wing installs it. `host` are
    folders of the node below that of a source, by name: they are mounted where they are, and the role runs as root.

    `tls` is the source of the name of the Secret that is mounted at /etc/berth/tls, `volumes` are the names of
    templates of further volumes, by directory below /etc/berth. `grace` are the seconds from SIGTERM to the end, or
    fields that hold them. The ports at the end of `egress` (sources) may be reached beside DNS and the API server;
    a source without a port is off.

    After an installation the chart shows `notes` and the commands that come next: `first`, the one that waits for the
    Pods, and `next`. These texts are Go templates, as those of the chart; an empty one is not shown.
    """

    kind: Literal["Deployment", "DaemonSet"] = "Deployment"
    enabled: str = ""
    ports: tuple[Port, ...] = ()
    arguments: tuple[Argument, ...] = ()
    tls: str = ""
    volumes: Mapping[str, str] = field(default_factory=dict, compare=False)
    host: Mapping[str, str] = field(default_factory=dict, compare=False)
    namespace: str = ""
    template: str = ""
    grace: tuple[int | str, ...] = (10,)
    egress: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


TLS_FILES = (
    Argument("tls_cert_file", text="/etc/berth/tls/tls.crt"),
    Argument("tls_private_key_file", text="/etc/berth/tls/tls.key"),
)


@dataclass(frozen=True, slots=True)
class Role:
    """A process of Berth that runs until it is stopped.

    `berth NAME` starts it. `settings` and `build` are references (`"module:name"`): the class of its settings; the
    function from `app.settings.reconciling.RoleContext` to its work, something that runs until it is cancelled.
    `ignored` are flags of a peer that are accepted and have no effect. `needs` is the cluster whose kinds have to be
    defined where it runs, `lease` the Lease that it works by, `chart` how the chart runs it. `home` is the scope in
    whose namespace it runs: in any but that of the release, a controller of its wing installs it.

    The rest is what `berth doctor` says follows: when no replica runs, when none holds the Lease, when its certificate
    has expired, and, by resource ("" for any other), when a right is missing. `renew` is a reference to the function
    from `app.doctor.cluster.Cluster` and `app.doctor.installed.Installed` to the command that has its certificate made
    again.
    """

    name: str
    settings: str
    build: str
    summary: str
    examples: tuple[str, ...]
    notes: str = ""
    ignored: tuple[str, ...] = ()
    needs: Cluster | None = None
    home: Scope = "release"
    lease: str = ""
    chart: Chart = Chart()
    when_down: str = ""
    when_idle: str = ""
    when_expired: str = ""
    renew: str = ""
    when_refused: Mapping[str, str] = field(default_factory=dict, compare=False)


def resolve(reference: str) -> Any:
    """What a reference names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
