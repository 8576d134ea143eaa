"""Check `permissions`: may each role do what it needs, and nothing that would make its token dangerous.

The doctor impersonates the role and asks the API server, so that every authorizer of the API server counts. It does
nothing else while it impersonates.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace

from app.doctor import commands, objects
from app.doctor.access import EVERYTHING, Account, Asking, Question, accounts_of
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, error, listed, ok, or_default, warning
from app.doctor.tenant_namespaces import tenant_namespaces
from app.errors import ApiError
from app.kube.resources import ROLE_BINDINGS, Resource

CLUSTER_ROLE_BINDINGS = Resource(
    ROLE_BINDINGS.group, ROLE_BINDINGS.version, "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
_REASON = re.compile(r'(ClusterRoleBinding|RoleBinding) "([^"]+)" of (ClusterRole|Role) "([^"]+)"')
_UNNAMED = re.compile(r"[^a-z0-9]+")


async def _permissions(cluster: Cluster) -> AsyncIterator[Finding]:
    accounts = await accounts_of(cluster)
    for role in sorted(cluster.roles - {one.role for one in accounts}):
        text = f"no ServiceAccount of role {role} was found in namespace {cluster.namespace}"
        yield warning("", text, "its rights were not checked")
    for account in accounts:
        try:
            async with cluster.impersonating(account.user) as client:
                found = await _judged(cluster, account, Asking(client))
        except ApiError as refusal:
            # One for all: who may not act as one of them may hardly act as another.
            yield not_impersonated(account, refusal)
            return
        for finding in found:
            yield finding


def not_impersonated(account: Account, refusal: ApiError) -> Finding:
    """The finding that the doctor may not act as an account. Raises any other refusal."""
    if refusal.status != 403 or "impersonate" not in str(refusal):
        raise refusal
    return warning(
        account.subject,
        "not checked: you may not act as it (verb impersonate)",
        "a right that a role lacks or should not have stays unseen; run the doctor as an administrator",
        commands.kubectl(
            "auth", "can-i", "impersonate", f"serviceaccounts/{account.name}", namespace=account.namespace
        ),
    )


async def _judged(cluster: Cluster, account: Account, asking: Asking) -> list[Finding]:
    # Alone, so that a missing right to impersonate shows in one request and not in hundreds.
    everything = await asking.reason(EVERYTHING)
    if everything is not None:
        return [await _too_much(cluster, account, grant_of(everything), [EVERYTHING])]
    findings = _lacking(cluster, account, await asking.refused(account.needed()))
    for namespace, refused in (await _refused_in_tenants(cluster, account, asking)).items():
        what = listed([f"{one.verb} {one.what}" for one in refused], 5)
        text = f"role {account.role} may not act for the tenant in namespace {namespace}: {what} refused"
        follows = "calls of this tenant fail"
        if account.role == "controller":
            follows = "the tenant's companions are neither made nor removed"
        command = commands.bind(account.tenants_role, f"{account.namespace}:{account.name}", namespace)
        findings.append(error(account.subject, text, follows, command))
    reasons = await asking.reasons(account.excessive())
    granted = {question: reason for question, reason in reasons.items() if reason is not None}
    too_much: dict[Grant, list[Question]] = {}
    for question, reason in granted.items():
        if not question.namespace or replace(question, namespace="") not in granted:
            too_much.setdefault(grant_of(reason), []).append(question)
    findings += [await _too_much(cluster, account, given, questions) for given, questions in too_much.items()]
    text = f"role {account.role} may do what it needs, and nothing dangerous: {asking.count} questions"
    return findings or [ok(account.subject, text)]


async def _refused_in_tenants(cluster: Cluster, account: Account, asking: Asking) -> dict[str, list[Question]]:
    """By namespace. All is asked in one, and one question in the others: a binding gives all or nothing."""
    found = await tenant_namespaces(cluster) if account.acts_for_tenants else []
    names = [one.name for one in found if not one.object["metadata"].get("deletionTimestamp")]
    questions = [question for name in names[:1] for question in account.needed(tenant=name)]
    questions += [next(account.needed(tenant=name)) for name in names[1:]]
    refused: dict[str, list[Question]] = {}
    for question in await asking.refused(questions):
        refused.setdefault(question.namespace, []).append(question)
    return refused


def _lacking(cluster: Cluster, account: Account, lacking: Iterable[Question]) -> list[Finding]:
    verbs: dict[Question, list[str]] = {}
    for one in lacking:
        verbs.setdefault(replace(one, verb=""), []).append(one.verb)
    findings = []
    for one, of_it in verbs.items():
        found, what = warning if one.resource == "events" else error, f"{one.what}/{one.name}".rstrip("/")
        text = f"role {account.role} may not {', '.join(of_it)} {what} {_where(one.namespace)}"
        command = grant(cluster, account, replace(one, verb=",".join(of_it)))
        findings.append(found(account.subject, text, account.without(one.resource), command))
    return findings


def _where(namespace: str) -> str:
    return f"in namespace {namespace}" if namespace else "in the whole cluster"


def grant(cluster: Cluster, account: Account, lacking: Question) -> str:
    """The command that gives the verbs of `lacking` (a comma list); by the chart, where that keeps the roles."""
    if account.by_chart:
        return commands.helm_upgrade(cluster)
    kind = "role" if lacking.namespace else "clusterrole"
    parts = [account.name, *lacking.verb.split(","), lacking.resource, lacking.name]
    name = _UNNAMED.sub("-", "-".join(parts).lower()).strip("-")
    rule = [f"--verb={lacking.verb}", f"--resource={lacking.what}"]
    rule += [f"--resource-name={lacking.name}"] if lacking.name else []
    to = [f"--{kind}={name}", f"--serviceaccount={account.namespace}:{account.name}"]
    first = commands.kubectl("create", kind, name, *rule, namespace=lacking.namespace)
    return f"{first} &&\n{commands.kubectl('create', f'{kind}binding', name, *to, namespace=lacking.namespace)}"


@dataclass(frozen=True, slots=True)
class Grant:
    """The binding that gives a right, as RBAC says it in its reason; all "" where something else authorizes."""

    kind: str = ""
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def grant_of(reason: str) -> Grant:
    """Reads `RBAC: allowed by RoleBinding "name/namespace" of Role "role" to …`."""
    found = _REASON.search(reason)
    if found is None:
        return Grant()
    kind, place = found[1], found[2]
    name, _, namespace = place.rpartition("/") if kind == "RoleBinding" else (place, "", "")
    return Grant(kind, name, namespace)


async def _too_much(cluster: Cluster, account: Account, given: Grant, questions: Sequence[Question]) -> Finding:
    if questions[0] == EVERYTHING:
        what, risk = "everything", "who gets hold of its token owns the cluster"
    else:
        parts: dict[tuple[str, str], list[str]] = {}
        for one in questions:
            verb = "do anything (`*`) with" if one.verb == "*" else one.verb
            parts.setdefault((one.what, one.namespace), []).append(verb)
        what = listed([f"{', '.join(verbs)} {kind} {_where(place)}" for (kind, place), verbs in parts.items()], 6)
        risk = "who gets hold of its token may do that too, and Berth does not need it"
    by = f" by {given}" if given.kind else ""
    text = f"role {account.role} may do more than it needs{by}: {what}"
    return warning(account.subject, text, risk, await _revoke(cluster, given, account))


async def _revoke(cluster: Cluster, given: Grant, account: Account) -> str:
    """The command that removes the account from the binding, or deletes a binding without other subjects."""
    resource, place = ROLE_BINDINGS if given.namespace else CLUSTER_ROLE_BINDINGS, given.namespace
    found = None
    if given.kind:
        found = await or_default(cluster.get(resource, given.name, namespace=place or None), None)
    if found is None:
        return commands.kubectl("auth", "can-i", "--list", f"--as={account.user}", namespace=account.namespace)
    if objects.labels(found).get(objects.PART_OF) == "berth":
        return commands.helm_upgrade(cluster)
    kind, subjects = objects.plural(resource), found.get("subjects") or []
    identities = [(one.get("kind"), one.get("name"), one.get("namespace") or place) for one in subjects]
    own = ("ServiceAccount", account.name, account.namespace)
    if own not in identities:  # it is bound as a member of a group, with others
        return commands.kubectl("describe", kind, given.name, namespace=place)
    if len(subjects) == 1:
        return commands.kubectl("delete", kind, given.name, namespace=place)
    path = f"/subjects/{identities.index(own)}"
    test = {"op": "test", "path": f"{path}/name", "value": account.name}
    return commands.json_patch(kind, given.name, [test, {"op": "remove", "path": path}], namespace=place)


CHECK = Check("permissions", (_permissions,))
