"""The wings of Berth, and its roles in the order in which the help shows them.

A wing is entered here and nowhere else: everything that treats all wings or all roles alike reads this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from app.placement.wing import ARGUMENTS as PLACEMENT_ARGUMENTS
from app.wiring import (
    TLS_FILES,
    Argument,
    Chart,
    Cluster,
    Condition,
    Port,
    ReviewKind,
    ReviewRule,
    Role,
    Term,
    Webhook,
    Wing,
    is_on,
    resolve,
)

if TYPE_CHECKING:
    from app.admission.parts import Context, Parts
    from app.kube.resources import Resource
    from app.settings.source import RoleSettings

WINGS: tuple[Wing, ...] = tuple(
    resolve(f"app.{name}.wing:WING")
    for name in (
        "networks",
        "placement",
        "workloads",
        "tenancy",
        "certs",
        "appwrappers",
        "rmd",
        "claims",
        "services",
    )
)

CONTROLLER_LEASE = "berth-controller"
_INJECTED = "app.admission.annotating:annotating"
"""What says on objects what was injected: behind all wings, for it tells what they have planned."""

WEBHOOK = Role(
    name="webhook",
    settings="app.settings.webhook:WebhookSettings",
    build="app.runtime.webhook:build",
    summary="Answer AdmissionReviews on /mutate and /validate over TLS.",
    examples=(
        "berth webhook --tls-cert-file tls.crt --tls-private-key-file tls.key",
        "berth webhook --manifests nads --insecure",
        "berth webhook --client-ca ca.crt --client-ca old-ca.crt --workers 2",
    ),
    notes="One dash is enough (-insecure=true). Lists in variables have commas (BERTH_CLIENT_CA=a.crt,b.crt).",
    ignored=(
        "--logtostderr/--no-logtostderr",
        "--alsologtostderr/--no-alsologtostderr",
        "--vmodule",
        "--log_dir",
        "--log-dir",
        "--stderrthreshold",
        "--log_backtrace_at",
        "--log_link",
        "--logbuflevel",
    ),
    needs="webhook",
    chart=Chart(
        ports=(Port("https", 8443, 443),),
        arguments=(
            Argument("port", text="8443"),
            *TLS_FILES,
            Argument("network_resource_name_keys"),
            Argument("existing_resources"),
            Argument("node_selector_conflict"),
            Argument("default_network_namespace"),
            Argument("workers"),
            Argument("undecided_bytes"),
            Argument("drain_seconds"),
            Argument("deadline_seconds"),
            *PLACEMENT_ARGUMENTS,
            Argument("inject_hugepage_down_api"),
            Argument("confine_tenants"),
            Argument("events"),
            Argument("injected_annotation"),
            Argument("client_ca", "berth.clientCAFile"),
            Argument("client_allowed_names", source="webhook.args.clientCA.allowedNames"),
            Argument("insecure", "berth.withoutClientCA"),
            Argument("caller_token_file", "berth.callerTokenFile"),
        ),
        tls="berth.webhookSecret",
        volumes={"client-ca": "berth.clientCAVolume", "caller-token": "berth.callerTokenVolume"},
        grace=("drain_seconds", "deadline_seconds"),
        notes=(
            (
                '{{ if eq .Values.certificates.mode "provided" }}'
                'Its Pods wait for Secret {{ include "berth.webhookSecret" . }} (tls.crt and tls.key for '
                '{{ include "berth.webhookService" . }}.{{ .Release.Namespace }}.svc).{{ end }}'
            ),
            (
                '{{ with .Values.webhook.webhooks.pods }}{{ if and .enabled (eq .failurePolicy "Ignore") }}'
                "With failurePolicy Ignore, Pods that are created while no webhook answers start without the resources "
                "of their networks.{{ end }}{{ end }}"
            ),
        ),
        next=(
            "berth doctor --berth-namespace {{ .Release.Namespace }} --release-name {{ .Release.Name }}",
            (
                "{{ if .Values.webhook.webhooks.pods.enabled }}kubectl get network-attachment-definitions -A"
                "   # what Pods can ask for, with annotation k8s.v1.cni.cncf.io/networks{{ end }}"
            ),
        ),
    ),
    when_down="nothing is injected into Pods, and with failurePolicy Fail none can be created",
    when_refused={
        "network-attachment-definitions": "attachments cannot be read: a new Pod of the webhook does not get ready, "
        "and for one that runs, new attachments stay unknown: Pods that select them are denied",
        "configmaps": "the control switches are not read: a new Pod of the webhook does not get ready",
        "resourceclaims": "network data of claims is not compared with that of others: a new Pod of the webhook does "
        "not get ready",
        "pods": "network data of claims is not compared with the networks of Pods: a new Pod of the webhook does not "
        "get ready",
        "namespaces": "tenants of namespaces are unknown: their Pods are refused, and a new Pod of the webhook does "
        "not get ready",
        "": "a new Pod of the webhook does not get ready; one that runs goes on with what it has read",
    },
)
CONTROLLER = Role(
    name="controller",
    settings="app.runtime.controller_settings:ControllerSettings",
    build="app.runtime.controller:build",
    summary="Reconcile companions and tenants in the infra cluster.",
    examples=("berth controller", "berth controller --controllers workloads --kubeconfig infra.kubeconfig"),
    lease=CONTROLLER_LEASE,
    chart=Chart(
        arguments=(
            Argument("controllers"),
            Argument("max_concurrent_reconciles"),
            Argument("resync_seconds"),
            Argument("namespace_grant", "berth.controllerGrant"),
            *PLACEMENT_ARGUMENTS,
            Argument("namespace_grant", "berth.gatewayGrant", when="gateway.enabled"),
            Argument("tenant_quota"),
        ),
    ),
    when_down="no companion is created or removed",
    when_idle="companions are neither created nor removed",
    when_refused={
        "leases": f"no replica can hold Lease {CONTROLLER_LEASE}: none of them works",
        "nodes": "DPU nodes are not labeled for their tenants: companions find no node",
        "namespaces": "new tenants get no namespace",
        "rolebindings": "controller and gateway cannot act in the namespaces of new tenants",
        "clusterroles": "controller and gateway cannot act in the namespaces of new tenants",
        "tenants": "tenants are not served",
        "": "companions are neither made nor removed, or no status says so",
    },
)

UI = Role(
    name="ui",
    settings="app.ui.settings:UiSettings",
    build="app.ui.role:build",
    summary="Show in a browser what Berth does, what is wrong, and why an object is as it is.",
    examples=(
        "berth ui --access callers --tls-cert-file tls.crt --tls-private-key-file tls.key",
        "berth ui --port 8080",
        "berth ui --kubeconfig infra.kubeconfig --kubeconfig tenant1.kubeconfig",
        "berth ui --context infra --context tenant1",
    ),
    chart=Chart(
        ports=(Port("https", 8443, 443),),
        arguments=(
            Argument("access", text="callers"),
            Argument("port", text="8443"),
            *TLS_FILES,
            Argument("front_proxy_ca", "berth.frontProxyFile"),
            Argument("front_proxy_names", "ui.frontProxy.names"),
            Argument("release", "berth.release"),
        ),
        tls="berth.uiSecret",
        volumes={"front-proxy": "berth.frontProxyVolume"},
        grace=(2,),
        next=(
            (
                "kubectl -n {{ .Release.Namespace }} port-forward "
                'service/{{ include "berth.fullname" . }}-ui 8443:{{ .Values.ui.service.port }}'
                "   # then https://localhost:8443/ with a token of: kubectl create token"
            ),
        ),
    ),
    when_down="the page does not answer; berth status, doctor and why do",
    when_expired="browsers warn of the page, and front proxies that verify it do not reach it",
    renew="app.doctor.certificate:renew_page",
    when_refused={
        "tokenreviews": "no caller of the page is known: all are refused",
        "subjectaccessreviews": "the page shows no caller anything",
        "": "views of the page lack what it may not read, and say so",
    },
)


def names_of(wings: Iterable[Wing], field: str) -> dict[str, str]:
    """What the wings declare in a field of names. Raises ValueError for a name that two of them declare."""
    names: dict[str, str] = {}
    for wing in wings:
        for name, value in getattr(wing, field).items():
            if name in names:
                raise ValueError(f"wing {wing.name}: {field}: another wing declares {name!r}: want it once")
            names[name] = value
    return names


def check_names(names: Iterable[str], declared: Collection[str], where: str) -> None:
    """Raise ValueError for a name that no wing declares."""
    for name in names:
        if name not in declared:
            raise ValueError(f"{where}: no wing declares {name!r}: want one of {', '.join(declared)}")


CLUSTERS = names_of(WINGS, "clusters")
"""The titles of the clusters that have kinds, "" for one whose kinds are defined by others."""
SCOPES = {"cluster": "", "release": "", **names_of(WINGS, "scopes")}
REVIEWED = names_of(WINGS, "reviewed")
"""How each kind of reviews is answered: mutate or validate."""
ALWAYS_REVIEWED = names_of([wing for wing in WINGS if not wing.on], "reviewed")
"""Those of wings that no setting turns off: one webhook may be called for several of these kinds."""

CONTROLLERS = {controller.name: controller for wing in WINGS for controller in wing.controllers}
ROLES = (WEBHOOK, CONTROLLER, *(role for wing in WINGS for role in wing.roles), UI)
BY_NAME = {role.name: role for role in ROLES}


def check_descriptors(wings: Iterable[Wing], roles: Iterable[Role]) -> None:
    """Raise ValueError for a cluster or a scope that no wing declares. What references name is checked on first use."""
    for wing in wings:
        needed = (controller.needs for controller in wing.controllers)
        check_names((*wing.kinds, *needed), CLUSTERS, f"wing {wing.name}: clusters")
    for role in roles:
        check_names(filter(None, [role.needs]), CLUSTERS, f"role {role.name}: needs")
        homes = [name for name, namespace in SCOPES.items() if namespace or name == "release"]
        check_names([role.home], homes, f"role {role.name}: home")


check_descriptors(WINGS, ROLES)


@cache
def settings_of(role: str) -> type[RoleSettings]:
    base = resolve(BY_NAME[role].settings)
    added = [resolve(wing.settings[role]) for wing in WINGS if role in wing.settings]
    namespace = {"__doc__": base.__doc__, "__module__": __name__}
    return cast("type[RoleSettings]", type(base.__name__, (*added, base), namespace))


def __getattr__(name: str) -> type[RoleSettings]:
    """The class of a role's settings by its name, under which pickle looks for it in a worker."""
    for role in BY_NAME.values():
        if role.settings.endswith(f":{name}"):
            return settings_of(role.name)
    raise AttributeError(name)


def arguments_of(role: Role) -> tuple[Argument, ...]:
    return (*role.chart.arguments, *(argument for wing in WINGS for argument in wing.arguments.get(role.name, ())))


def egress_of(role: Role) -> tuple[str, ...]:
    return (*role.chart.egress, *(destination for wing in WINGS for destination in wing.egress.get(role.name, ())))


def needs_of(role: Role) -> dict[Cluster, tuple[str, ...]]:
    """The clusters whose kinds have to be defined where a role runs, with the controllers that need them (): all."""
    if role is not CONTROLLER:
        return {role.needs: ()} if role.needs else {}
    clusters: dict[Cluster, tuple[str, ...]] = {}
    for controller in CONTROLLERS.values():
        clusters[controller.needs] = (*clusters.get(controller.needs, ()), controller.name)
    return clusters


def kinds_of(cluster: Cluster) -> tuple[Resource, ...]:
    check_names([cluster], CLUSTERS, "clusters")
    return tuple(resource for wing in WINGS if cluster in wing.kinds for resource in resolve(wing.kinds[cluster]))


def parts_of(context: Context, wings: Sequence[Wing] = WINGS) -> list[Parts]:
    """What is put into the chains of a webhook, by the wings and behind them.

    Of a wing that is off nothing is imported, reviewed or read.
    """
    settings = dict(context.settings)
    running = [wing for wing in wings if wing.parts and (not wing.on or is_on(wing.on, settings))]
    parts: list[Parts] = [resolve(wing.parts)(context) for wing in running]
    return [*parts, resolve(_INJECTED)(parts)] if settings.get("injected_annotation") else parts


def reviews_of(*kinds: ReviewKind) -> tuple[ReviewRule, ...]:
    """What an API server is to send for reviews of these kinds, by the wings in their order."""
    rules = [rule for wing in WINGS if wing.reviews for rule in resolve(wing.reviews)]
    check_names((*kinds, *(rule.kind for rule in rules)), REVIEWED, "reviews")
    return tuple(rule for rule in rules if rule.kind in kinds)


def webhooks_of(*kinds: ReviewKind) -> tuple[Webhook, ...]:
    """The webhooks of the chart for reviews of these kinds, or of any; by the wings in their order."""
    webhooks = [webhook for wing in WINGS if wing.webhooks for webhook in resolve(wing.webhooks)]
    check_names((*kinds, *(webhook.kind for webhook in webhooks)), REVIEWED, "webhooks")
    return tuple(webhook for webhook in webhooks if not kinds or webhook.kind in kinds)


def asked_of_pods() -> tuple[str | Term, ...]:
    """The annotations and terms by which Pods ask for something of a wing."""
    return tuple(key for wing in WINGS if wing.asks for key in resolve(wing.asks))


def condition_terms(condition: Condition) -> tuple[Term, ...]:
    """The terms of a match condition; those of what Pods ask for where it has none of its own."""
    if condition.terms:
        return condition.terms
    asked = asked_of_pods()
    keys = ", ".join(f"'{key}'" for key in asked if isinstance(key, str))
    annotated = f"has(object.metadata.annotations) && [{keys}].exists(key, key in object.metadata.annotations)"
    return tuple(term for term in (Term(annotated), *asked) if isinstance(term, Term))
