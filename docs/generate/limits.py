"""limits.md: every bound of the code, with what happens beyond it."""

from __future__ import annotations

from collections.abc import Iterable

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from app.admission import chain, connection, endpoint, heads, memo, pods, server
from app.appwrappers import ancestors, sizes
from app.appwrappers import model as appwrappers
from app.claims import definitions
from app.claims import model as claims
from app.claims.admission import review as claim_status
from app.claims.injection import injector
from app.claims.publishing import model as publishing
from app.kube import client
from app.networks import selection
from app.rmd import cores, requests
from app.services import model as services
from app.serving import listener
from app.settings.webhook import UNDECIDED_BYTES
from app.tenancy import model as tenancy
from app.tenancy.gateway import quotas, reading, relaying
from app.tenancy.gateway.settings import Limits
from app.workloads.rules import key_syntax, keys
from app.workloads.rules import problems as rules
from app.workloads.settings import DEFAULT_QUOTA
from app.workloads.templates import bounds, guards
from app.workloads.templates import problems as templates
from docs.generate.texts import Page, code, page, table

_INTRO = """\
Bounds of Berth, by subject. Those of the API server hold as well. A bound with a flag or a value of the chart shows its
default; [flags](flags.md) and [values](values.md) have the names. Bounds on what Berth does itself (turns, queues,
replicas) are in [scaling](../scaling.md), those on each field of a tenant's Pod in
[the security model](../security.md#every-field-of-a-tenants-pod)."""
_GATEWAY = """\
For each certificate or tenant, and for each replica of the gateway."""
_QUOTAS = """\
The controller keeps these for each tenant: [what each is for](../security.md#quotas-in-a-tenants-namespace).
`controller.args.tenantQuota` changes them for all tenants. What is beyond a bound is not created; what exists stays."""
_LIMITS = Limits()
Row = tuple[str, str, str]
DENIED = "denied, with the count and the bound"
EXHAUSTED = "RESOURCE_EXHAUSTED"


def limits_page() -> Page:
    return page(
        "docs/reference/limits.md",
        "Limits",
        _INTRO,
        *_section("Reviews", reviews()),
        *_section("Pods", of_pods()),
        *_section("Rules and templates", of_rules()),
        *_section("Tenants at the gateway", of_tenants(), _GATEWAY),
        *_section("Quotas of a tenant", of_quotas(), _QUOTAS),
        *_section("AppWrappers", of_appwrappers()),
        *_section("RMD", of_rmd()),
        *_section("Claims and Services", of_claims()),
    )


def reviews() -> list[Row]:
    """Of the HTTP server and of one review."""
    body, deadline = mebibytes(endpoint.BODY_LIMIT), f"{endpoint.DEADLINE:g} s"
    head = f"{kibibytes(connection.HEAD_BYTES)}, {connection.HEAD_SECONDS:g} s"
    waited = f"{kibibytes(HIGH_WATER_LIMIT)}, {1000 * server.HOLD_SECONDS:g} ms"
    kept = f"{mebibytes(memo.LIMIT)}, {kibibytes(memo.LARGEST)} for one"
    return [
        ("body of a review", body, "HTTP 413"),
        ("values of JSON in it", f"{endpoint.VALUES:,}", "HTTP 413"),
        (
            "deadline of a review",
            deadline,
            "HTTP 500: `failurePolicy` decides. The deadline is nine tenths of the caller's timeout if that is less",
        ),
        ("head of a request", head, "HTTP 431; closed"),
        ("body, from its head on", f"{connection.BODY_SECONDS:g} s", "closed"),
        ("bytes of requests that are not answered yet", mebibytes(UNDECIDED_BYTES), "HTTP 429"),
        ("questions of one review to the API server", f"{chain.MOST_LOOKUPS}", "denied"),
        (
            "a body that is waited for before uvicorn has the request, on one connection",
            waited,
            "it gets what came",
        ),
        ("heads of requests that are kept parsed", f"{heads.KNOWN} of {kibibytes(heads.LIMIT)}", "the least used goes"),
        ("answers kept for Pods alike, in each worker", kept, "the least used goes"),
        ("an answer that the client does not read", f"{connection.ANSWER_SECONDS:g} s", "closed"),
        ("TLS handshake", f"{listener.HANDSHAKE_SECONDS:g} s", "closed"),
        ("connections of a port of a process", f"{listener.CONNECTIONS:,}", "the oldest without a request is closed"),
        ("requests that wait on one connection", f"{connection.PIPELINED}", "HTTP 400"),
        ("a page of a list from the API server", mebibytes(client.PAGE_BYTES), "asked for with fewer objects"),
    ]


def of_pods() -> list[Row]:
    """Of a Pod that asks for something, and of attachments."""
    return [
        ("networks in the annotation of a Pod", f"{selection.MAX_SELECTIONS}", "denied"),
        ("bytes of the annotation", kibibytes(selection.MAX_VALUE), "denied"),
        ("containers of a Pod with networks or cache ways", f"{pods.MOST_CONTAINERS:,}", DENIED),
        ("claims that are added to a Pod", f"{claims.MOST_CLAIMS}", DENIED),
        ("Pod templates of one AppWrapper to inject into", f"{injector.MOST_TEMPLATES}", DENIED),
    ]


def of_rules() -> list[Row]:
    """Of rules and of the Pod templates of tenants."""
    texts = f"{rules.MAX_VALUES} of {rules.MAX_VALUE_LENGTH:,} characters"
    key = f"{key_syntax.MAX_LENGTH:,} characters, {key_syntax.MAX_TOKENS} tokens, {key_syntax.MAX_DEPTH} levels"
    refused = "refused by `/validate` and the gateway"
    terms = max(bound.most for path, bound in bounds.BOUNDS.items() if path != "tolerations")
    return [
        ("rules of a tenant; of the admin", f"{quotas.MAX_RULES} each", "FAILED_PRECONDITION"),
        ("terms of a rule", f"{rules.MAX_TERMS}", refused),
        ("expressions of a term", f"{rules.MAX_EXPRESSIONS}", refused),
        ("values of an expression", texts, refused),
        ("entries of `workloadInfoInject`", f"{rules.MAX_INJECTIONS}", refused),
        ("tenants in `tenant_match`", f"{rules.MAX_TENANTS:,}", refused),
        ("a key", key, refused),
        ("keys of a rule that compute, in its terms; in its injections", f"{rules.MAX_COMPUTED}; the same", refused),
        ("keys of a rule that are no plain path", f"{rules.MAX_PARSED}", refused),
        ("keys that compute in all rules of a tenant", f"{quotas.MAX_COMPUTED}", "FAILED_PRECONDITION"),
        ("steps of one evaluation of a key", f"{keys.STEPS:,}", "the value counts as missing"),
        ("fields and items of a template", f"{templates.MOST_VALUES:,}", refused),
        (
            "items of a list in a template; of all its lists",
            f"{templates.MOST_ITEMS:,}; {templates.MOST_OBJECTS:,}",
            refused,
        ),
        ("terms of pod or node affinity, spread constraints: each list", f"{terms}", refused),
        ("conditions of a term; values of a condition", f"{bounds.MOST_CONDITIONS}; {bounds.MOST_VALUES}", refused),
        ("conditions and values that select Pods, in one Pod", f"{bounds.MOST_SELECTING}", refused),
        ("tolerations", f"{bounds.BOUNDS['tolerations'].most}", refused),
        ("`terminationGracePeriodSeconds`", f"{guards.MOST_GRACE_SECONDS:,}", refused),
    ]


def of_tenants() -> list[Row]:
    """At the gateway."""
    read = f"{_LIMITS.reading_share:g} s of CPU a second, {_LIMITS.reading_burst:g} s at once"
    memory = f"{_LIMITS.requests_per_tenant}, one of them larger than {kibibytes(reading.SMALL_MESSAGE)}"
    handshakes = f"{_LIMITS.handshake:g} s, {10 * _LIMITS.handshakes} begun a second"
    stored = f"{kibibytes(_LIMITS.stored_bytes_per_second)} a second, {mebibytes(_LIMITS.stored_bytes_burst)} at once"
    sent = f"{mebibytes(_LIMITS.bytes_per_second)} a second, {mebibytes(_LIMITS.bytes_burst)} at once"
    called = f"{_LIMITS.calls_per_second:g} a second, {_LIMITS.calls_burst} at once"
    workloads = f"{_LIMITS.workloads_per_tenant:,}, {kibibytes(_LIMITS.workload_mean_bytes)} each on average"
    small = map(kibibytes, (_LIMITS.rule_bytes, _LIMITS.daemon_set_bytes))
    manifests = "; ".join((*small, mebibytes(_LIMITS.manifest_bytes)))
    uvs_pods = f"{mebibytes(_LIMITS.pods_bytes)}; {mebibytes(_LIMITS.pending_pods_bytes)}"
    mtls = [
        ("connections of a gateway", f"{_LIMITS.connections:,}", "the oldest that is of no known caller is closed"),
        ("connections of a tenant", f"{_LIMITS.connections_per_tenant}", "its oldest is closed"),
        ("TLS handshake at a gateway", handshakes, "closed; new connections wait"),
        ("message to the gateway, and a list from it", mebibytes(_LIMITS.message_bytes), EXHAUSTED),
        (
            "bytes of a call that are read before the caller is known",
            kibibytes(_LIMITS.unread_bytes),
            "the sender waits",
        ),
        ("headers of a call to the gateway", kibibytes(relaying.MOST_HEADERS), "closed"),
        (
            "bytes of a certificate that is no caller's",
            f"{kibibytes(_LIMITS.strange_bytes_per_second)} a second",
            "the sender waits",
        ),
    ]
    return [
        *mtls,
        ("hosts, names and certificates of a Tenant", tenant_lists(), "refused"),
        ("characters of a tenant's name", f"{tenancy.NAME_LIMIT}", "refused"),
        ("calls of a tenant under way", f"{_LIMITS.calls_per_tenant}", EXHAUSTED),
        ("calls of a tenant", called, f"held for half a second, then {EXHAUSTED}"),
        ("streams of a tenant", f"{_LIMITS.streams_per_tenant}", EXHAUSTED),
        ("requests of a tenant in memory", memory, "they wait, unread; tenants take turns"),
        ("a request that comes in, an answer that is taken", f"{_LIMITS.exchange:g} s", "DEADLINE_EXCEEDED; closed"),
        ("reading and checking what a tenant sends", read, "the sender waits"),
        (
            "bytes of a tenant",
            sent,
            "the sender waits. A byte of headers counts for 64, and each HTTP/2 frame for 256 more",
        ),
        ("values of a manifest", f"{_LIMITS.manifest_values:,}", "INVALID_ARGUMENT"),
        ("a rule or Pod; a DaemonSet; a ConfigMap or Secret", manifests, "INVALID_ARGUMENT"),
        ("a manifest in YAML", kibibytes(_LIMITS.yaml_bytes), "INVALID_ARGUMENT"),
        ("all Pods of a tenant's UVSPods; those without a node", uvs_pods, EXHAUSTED),
        (
            "number of those without a node; each term that selects Pods counts for four more",
            f"{_LIMITS.pending_pods}",
            EXHAUSTED,
        ),
        ("what is stored for a tenant", stored, f"workloads wait; {EXHAUSTED}"),
        ("workloads of a tenant", workloads, "dropped; log line and metric"),
        ("rules of a tenant times its workloads", f"{_LIMITS.pairs:,}", "FAILED_PRECONDITION; workloads are dropped"),
        (
            "writes of a tenant under way",
            f"{_LIMITS.writes_per_tenant} of {_LIMITS.writes}",
            "they wait; tenants take turns. A tenant whose workloads wait only for each other has two",
        ),
    ]


def tenant_lists() -> str:
    return f"{tenancy.MOST_HOSTS:,}, {tenancy.MOST_NAMES}, {tenancy.MOST_CERTIFICATES}"


def of_quotas() -> list[Row]:
    """What `--tenant-quota` bounds, by its names."""
    by = {True: "the controller: QuotaExceeded, Throttled or Unscheduled", False: "the API server, by a ResourceQuota"}
    return [(code(name), f"{most:,}", by[name.startswith("companions/")]) for name, most in DEFAULT_QUOTA.items()]


def of_appwrappers() -> list[Row]:
    refused = "refused; one that admission has not seen fails with the reason `TooLarge`"
    return [
        ("components", f"{sizes.MOST_COMPONENTS}", refused),
        ("`spec.components` and the status of all components", mebibytes(sizes.MOST_BYTES), refused),
        ("Pod templates of all podSets", mebibytes(sizes.MOST_BYTES), refused),
        (
            "podSets, without Kueue",
            f"{appwrappers.MOST_POD_SETS}",
            "refused. With Kueue: as its Workloads",
        ),
        ("Pods of all podSets", f"{sizes.MOST_PODS:,}", refused),
        ("owners that are followed to find a queue", f"{ancestors.MOST}", "the AppWrapper waits for its own queue"),
    ]


def of_rmd() -> list[Row]:
    return [
        ("number of a core", f"{cores.MOST_CORES - 1:,}", "refused"),
        ("ranges of cores of an RmdWorkload, in all texts", f"{cores.MOST_RANGES:,}", "refused"),
        ("nodes of an RmdWorkload", f"{requests.MOST_NODES:,}", "refused"),
        ("labels in a selector of nodes", f"{requests.MOST_LABELS}", "refused"),
        ("`rdt.mba.mbps`", f"{requests.MOST_MBPS:,}", "refused"),
    ]


def of_claims() -> list[Row]:
    return [
        ("devices in the status of a claim", f"{claim_status.MOST_DEVICES}", "denied"),
        ("addresses of a device, or of a Pod on a network", f"{claims.MOST_IPS}", "the others are left out"),
        (
            "subnets and addresses in the IPAM of an attachment",
            f"{publishing.MOST_RANGES:,}",
            "the attachment counts as one without known subnets: nothing is published",
        ),
        ("definitions of claims in the ConfigMap", f"{definitions.MOST_DEFINITIONS:,}", "refused"),
        ("endpoints of an EndpointSlice", f"{services.MOST_ENDPOINTS}", "another slice"),
    ]


def kibibytes(number: float) -> str:
    return f"{number / 1024:g} KiB"


def mebibytes(number: float) -> str:
    return f"{number / 2**20:g} MiB"


def _section(heading: str, rows: Iterable[Row], intro: str = "") -> tuple[str, ...]:
    return (f"## {heading}", intro, table(("What", "At most", "Beyond it"), rows))
