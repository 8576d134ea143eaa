"""Check `permissions`: may each role do what it needs, and nothing that would make its token dangerous.

The doctor asks by SubjectAccessReview, so that every authorizer of the API server counts. Of a right that a role has
and does not need, it says which binding gives it, and how it is taken back. And whether Helm has finished the release,
whose objects give the rights.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.doctor import commands, objects
from app.doctor.access import EVERYTHING, Account, Asking, Question, accounts_of
from app.doctor.catalog import listed
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, depends_on, error, info, noted, ok, or_default, topic, warning, worst
from app.doctor.namespaces import tenant_namespaces
from app.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, SECRETS
from app.kube.secrets import MANAGED_BY, MANAGER
from app.tenancy.model import tenants_role

_KEPT = f"{MANAGED_BY}={MANAGER}"
_HELM_WAITS = 300.0
"""Seconds that Helm works on a release by default; after them it has been ended."""
_UNNAMED = re.compile(r"[^a-z0-9]+")
_REASON = re.compile(r'(ClusterRoleBinding|RoleBinding) "([^"]+)" of (ClusterRole|Role) "([^"]+)"')


async def _permissions(cluster: Cluster) -> AsyncIterator[Finding]:
    accounts = await accounts_of(cluster)
    for role in sorted(cluster.roles - {account.role for account in accounts}):
        yield warning("BERTH0805", "", role=role, home=cluster.namespace)
    for account in accounts:
        for finding in await _judged(cluster, account):
            yield finding


async def _judged(cluster: Cluster, account: Account) -> list[Finding]:
    asking = Asking(cluster.client, account)
    # Alone, so that a missing right to ask shows in one request and not in hundreds.
    everything = await asking.reason(EVERYTHING)
    if everything is not None:
        return [await _too_much(cluster, account, grant_of(everything), [EVERYTHING])]
    findings = await _lacking(cluster, account, await asking.refused(account.needed()))
    for namespace, refused in (await _refused_in_tenants(cluster, account, asking)).items():
        what, role = [f"{question.verb} {question.what}" for question in refused], account.role
        values: dict[str, Any] = {"namespace": namespace, "name": tenants_role(role), "label": _KEPT, "what": what}
        findings.append(error("BERTH0803", account, case=role, because=depends_on(role), **values))
    reasons = await asking.reasons(account.excessive())
    granted = {question: reason for question, reason in reasons.items() if reason is not None}
    grants: dict[Grant, list[Question]] = {}
    for question, reason in granted.items():
        if not question.namespace or replace(question, namespace="") not in granted:
            grants.setdefault(grant_of(reason), []).append(question)
    findings += [await _too_much(cluster, account, given, questions) for given, questions in grants.items()]
    text = f"role {account.role} has all permissions that it needs, and no dangerous one that the doctor knows"
    return findings or [ok(account.subject, text)]


async def _refused_in_tenants(cluster: Cluster, account: Account, asking: Asking) -> dict[str, list[Question]]:
    """By namespace. All is asked in one, and one question in the others: a binding gives all or nothing."""
    namespaces = await tenant_namespaces(cluster) if account.acts_for_tenants else []
    names = [namespace.name for namespace in namespaces if not namespace.object["metadata"].get("deletionTimestamp")]
    questions = [question for name in names[:1] for question in account.needed(tenant=name)]
    questions += [next(account.needed(tenant=name)) for name in names[1:]]
    refused: dict[str, list[Question]] = {}
    for question in await asking.refused(questions):
        refused.setdefault(question.namespace, []).append(question)
    return refused


async def _lacking(cluster: Cluster, account: Account, lacking: Sequence[Question]) -> list[Finding]:
    """A finding for each resource; where they are several, one more, from which they follow."""
    verbs: dict[Question, list[str]] = {}
    for question in lacking:
        verbs.setdefault(replace(question, verb=""), []).append(question.verb)
    grants = {
        question: grant(cluster, account, replace(question, verb=",".join(of_it))) for question, of_it in verbs.items()
    }
    findings = []
    topics = (topic("rights", account.role), topic("role", account.role))
    linked: dict[str, Any] = {"because": topics} if len(verbs) > 1 else {"explains": topics}
    for question, of_it in verbs.items():
        bad, what = warning if question.resource == "events" else error, f"{question.what}/{question.name}".rstrip("/")
        text = f"role {account.role} may not {', '.join(of_it)} {what} {_where(question.namespace)}"
        findings.append(bad("BERTH0802", account, text, account.without(question.resource), grants[question], **linked))
    if len(verbs) < 2:
        return findings
    reasons, fixes = [], dict[str, None]()
    for namespace in dict.fromkeys(question.namespace for question in verbs):
        reason, command = await _unbound(cluster, account, namespace)
        reasons += [reason] if reason else []
        single = [grants[question] for question in verbs if question.namespace == namespace]
        fixes |= dict.fromkeys([command] if command and not account.by_chart else single)
    why, fix = f": {'; '.join(reasons)}" if reasons else "", " &&\n".join(fixes)
    given: dict[str, Any] = {"count": len(verbs), "why": why, "consequence": account.without(""), "command": fix}
    return [noted(worst(findings), "BERTH0801", account, explains=topics, **given), *findings]


async def _unbound(cluster: Cluster, account: Account, namespace: str) -> tuple[str, str]:
    """That no binding there names the account, or that its role is missing, and the command; "" where it is neither."""
    bindings, roles = (ROLE_BINDINGS, ROLES) if namespace else (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES)
    present = await or_default(cluster.listed(bindings, namespace=namespace or None), None)
    if present is None:
        return "", ""
    names = [binding for binding in present if account.is_among(binding.get("subjects") or [])]
    if not names:
        role = await or_default(cluster.get(roles, account.name, namespace=namespace or None), None)
        bind = _create(bindings.kind, account.name, roles.kind, account, namespace)
        text = f"no {bindings.kind} {_where(namespace)} names it" if namespace else f"no {bindings.kind} names it"
        return text, bind if role is not None else ""
    for binding in names:
        ref = binding["roleRef"]
        kind, place = (CLUSTER_ROLES, None) if ref.get("kind") == CLUSTER_ROLES.kind else (ROLES, namespace)
        if await or_default(cluster.get(kind, ref["name"], namespace=place), {}) is None:
            return (
                f"{bindings.kind} {binding['metadata']['name']} names {ref['kind']} {ref['name']}, which is missing",
                "",
            )
    return "", ""


def grant(cluster: Cluster, account: Account, lacking: Question) -> str:
    """The command that gives the verbs of `lacking` (a comma list); by the chart, where that keeps the roles."""
    if account.by_chart:
        return commands.helm_upgrade(cluster)
    kind = "role" if lacking.namespace else "clusterrole"
    parts = [account.name, *lacking.verb.split(","), lacking.resource, lacking.name]
    name = _UNNAMED.sub("-", "-".join(parts).lower()).strip("-")
    rule = [f"--verb={lacking.verb}", f"--resource={lacking.what}"]
    rule += [f"--resource-name={lacking.name}"] if lacking.name else []
    first = commands.kubectl("create", kind, name, *rule, namespace=lacking.namespace)
    return f"{first} &&\n{_create(f'{kind}binding', name, kind, account, lacking.namespace)}"


def _create(binding: str, name: str, role: str, account: Account, namespace: str) -> str:
    """The command that binds the account to the role of the same name."""
    to = [f"--{role.lower()}={name}", f"--serviceaccount={account.namespace}:{account.name}"]
    return commands.kubectl("create", binding.lower(), name, *to, namespace=namespace)


def _where(namespace: str) -> str:
    return f"in namespace {namespace}" if namespace else "in the whole cluster"


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
    match = _REASON.search(reason)
    if match is None:
        return Grant()
    kind, place = match[1], match[2]
    name, _, namespace = place.rpartition("/") if kind == "RoleBinding" else (place, "", "")
    return Grant(kind, name, namespace)


async def _too_much(cluster: Cluster, account: Account, given: Grant, questions: Sequence[Question]) -> Finding:
    parts: dict[tuple[str, str], list[str]] = {}
    for question in questions:
        verb = "do anything (`*`) with" if question.verb == "*" else question.verb
        parts.setdefault((question.what, question.namespace), []).append(verb)
    what = listed([f"{', '.join(verbs)} {kind} {_where(place)}" for (kind, place), verbs in parts.items()], 6)
    case, what = ("everything", "everything") if questions[0] == EVERYTHING else ("", what)
    fix, by = await _revoke(cluster, given, account), f" by {given}" if given.kind else ""
    return warning("BERTH0804", account, case=case, by=by, what=what, command=fix)


async def _revoke(cluster: Cluster, given: Grant, account: Account) -> str:
    """The command that removes the account from the binding, or deletes a binding without other subjects."""
    resource, place = ROLE_BINDINGS if given.namespace else CLUSTER_ROLE_BINDINGS, given.namespace
    binding = None
    if given.kind:
        binding = await or_default(cluster.get(resource, given.name, namespace=place or None), None)
    if binding is None:
        return commands.kubectl("auth", "can-i", "--list", f"--as={account.user}", namespace=account.namespace)
    if objects.labels(binding).get(objects.PART_OF) == "berth":
        return commands.helm_upgrade(cluster)
    kind, subjects = objects.plural(resource), binding.get("subjects") or []
    own = [index for index, subject in enumerate(subjects) if account.is_among([subject])]
    if not own:  # it is bound as a member of a group, with others
        return commands.kubectl("describe", kind, given.name, namespace=place)
    if len(subjects) == 1:
        return commands.kubectl("delete", kind, given.name, namespace=place)
    path = f"/subjects/{own[0]}"
    test = {"op": "test", "path": f"{path}/name", "value": account.name}
    return commands.json_patch(kind, given.name, [test, {"op": "remove", "path": path}], namespace=place)


async def _release(cluster: Cluster) -> AsyncIterator[Finding]:
    """Whether Helm has finished the release, which gives the permissions: its Secrets say it in their labels.

    What is in them is not read. Nothing is found where Secrets may not be listed.
    """
    chosen = f"owner=helm,name={cluster.release}"
    secrets = await or_default(cluster.client.metadata(SECRETS, namespace=cluster.namespace, label_selector=chosen), [])
    secrets = [it for it in secrets if str(objects.labels(it).get("version")).isdecimal()]
    revisions = {int(objects.labels(it)["version"]): it for it in secrets}
    if not revisions:
        return
    last = max(revisions)
    state = str(objects.labels(revisions[last]).get("status") or "")
    good = [
        number for number, it in revisions.items() if objects.labels(it).get("status") in ("deployed", "superseded")
    ]
    if state == "failed":
        fix = commands.helm_upgrade(cluster)
    elif state in ("uninstalling", "pending-install") or (state.startswith("pending-") and not good):
        fix = f"helm uninstall {cluster.release} --namespace {cluster.namespace}"
    elif state.startswith("pending-"):
        fix = f"helm rollback {cluster.release} {max(good)} --namespace {cluster.namespace}"
    else:
        return
    about, case = f"release {cluster.namespace}/{cluster.release}", "" if state == "failed" else "stopped"
    if case and objects.age(revisions[last], cluster.now()) < _HELM_WAITS:
        yield info("BERTH0806", about, case="running", number=last, state=state)
    else:
        yield error("BERTH0806", about, case=case, number=last, state=state, command=fix)


CHECK = Check("permissions", (_permissions, _release))
