"""Check `permissions`: may each role do what it needs, and nothing that would make its token dangerous.

The doctor impersonates the role and asks the API server, so that every authorizer of the API server counts. It does
nothing else while it impersonates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.doctor.access_review import Account, Asking, accounts_of
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity
from app.doctor.objects import kubectl, listed
from app.doctor.rbac_fix import Grant, grant, grant_of, in_tenants_namespace, revoke
from app.doctor.required_access import EVERYTHING, Question, consequence, excessive, needed, needed_by
from app.errors import ApiError
from app.kube.resources import NAMESPACES
from app.placement.namespaces import tenant_of
from app.wiring import Permission
from app.workloads.model import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    pass

_CLUSTER_WIDE = "in the whole cluster"


@dataclass(frozen=True, slots=True)
class Permissions:
    name: str = "permissions"

    async def run(self, cluster: Cluster) -> list[Finding]:
        findings: list[Finding] = []
        accounts = await accounts_of(cluster)
        for role in sorted(cluster.roles - {one.role for one in accounts}):
            text = f"no ServiceAccount of role {role} was found in namespace {cluster.namespace}"
            findings.append(Finding(self.name, Severity.warning, "", text, "its rights were not checked"))
        for account in accounts:
            try:
                findings += await self._account(cluster, account, accounts)
            except ApiError as error:
                if error.status != 403 or "impersonate" not in str(error):
                    raise
                return [*findings, self._not_allowed(account)]
        return findings

    def _not_allowed(self, account: Account) -> Finding:
        """One for all: who may not act as one of them may hardly act as another."""
        command = kubectl(
            "auth", "can-i", "impersonate", f"serviceaccounts/{account.name}", namespace=account.namespace
        )
        return Finding(
            self.name,
            Severity.warning,
            account.subject,
            "not checked: you may not act as it (verb impersonate)",
            "a right that a role lacks or should not have stays unseen; run the doctor as an administrator",
            command,
        )

    async def _account(self, cluster: Cluster, account: Account, all_of_them: Sequence[Account]) -> list[Finding]:
        gateway_here = any(one.role == "gateway" for one in all_of_them)
        wanted = needed_by(account.role, account.running, release=cluster.release, gateway_here=gateway_here)
        async with cluster.impersonating(account.user, ()) as client:
            asking = Asking(client)
            # Alone, so that who may not impersonate is told so by one request and not by hundreds.
            everything = await asking.reason(EVERYTHING)
            if everything is not None:
                return [await self._too_much(cluster, account, grant_of(everything), [EVERYTHING])]
            lacking = await asking.refused(
                question
                for one in wanted
                if one.scope != "tenants"
                for question in needed(one, namespace=_namespace(one, account))
            )
            findings = self._lacking(cluster, account, lacking)
            findings += await self._in_tenants(cluster, account, wanted, asking)
            granted = await asking.granted(excessive(account.role, wanted, namespace=account.namespace))
            too_much: dict[Grant, list[Question]] = {}
            for question, reason in granted.items():
                if not question.namespace or replace(question, namespace="") not in granted:
                    too_much.setdefault(grant_of(reason), []).append(question)
            for given, questions in too_much.items():
                findings.append(await self._too_much(cluster, account, given, questions))
        if not findings:
            text = f"role {account.role} may do what it needs, and nothing dangerous: {asking.count} questions"
            findings.append(Finding(self.name, Severity.ok, account.subject, text))
        return findings

    def _lacking(self, cluster: Cluster, account: Account, lacking: Sequence[Question]) -> list[Finding]:
        by_object: dict[tuple[str, str, str, str], list[str]] = {}
        for one in lacking:
            by_object.setdefault((one.group, one.resource, one.namespace, one.name), []).append(one.verb)
        findings = []
        for (group, resource, namespace, name), verbs in by_object.items():
            what = Question("", group, resource).what + (f"/{name}" if name else "")
            where = f"in namespace {namespace}" if namespace else _CLUSTER_WIDE
            findings.append(
                Finding(
                    self.name,
                    Severity.warning if resource == "events" else Severity.error,
                    account.subject,
                    f"role {account.role} may not {', '.join(verbs)} {what} {where}",
                    consequence(account.role, resource),
                    grant(
                        cluster,
                        account.running,
                        account.namespace,
                        account.name,
                        Question(",".join(verbs), group, resource, namespace, name),
                    ),
                )
            )
        return findings

    async def _in_tenants(
        self, cluster: Cluster, account: Account, wanted: Sequence[Permission], asking: Asking
    ) -> list[Finding]:
        """All of it in one namespace, and in the others one question: a binding gives all or nothing."""
        wanted = [one for one in wanted if one.scope == "tenants"]
        if not wanted:
            return []
        found = await cluster.listed(NAMESPACES) or []
        names = [
            one["metadata"]["name"] for one in found if tenant_of(one) and not one["metadata"].get("deletionTimestamp")
        ]
        first, *others = names or [""]
        questions = [question for one in wanted for question in needed(one, namespace=first)] if first else []
        samples = [next(needed(wanted[0], namespace=name)) for name in others]
        refused: dict[str, list[Question]] = {}
        for question in await asking.refused([*questions, *samples]):
            refused.setdefault(question.namespace, []).append(question)
        return [
            Finding(
                self.name,
                Severity.error,
                account.subject,
                f"role {account.role} may not act for the tenant in namespace {namespace}: "
                f"{listed([f'{one.verb} {one.what}' for one in questions], 5)} refused",
                "the tenant's companions are neither made nor removed"
                if account.role == "controller"
                else "calls of this tenant fail",
                in_tenants_namespace(account.role, account.namespace, account.name, namespace),
            )
            for namespace, questions in refused.items()
        ]

    async def _too_much(
        self, cluster: Cluster, account: Account, given: Grant, questions: Sequence[Question]
    ) -> Finding:
        if questions[0] == EVERYTHING:
            what, risk = "everything", "who gets hold of its token owns the cluster"
        else:
            parts: dict[tuple[str, str], list[str]] = {}
            for one in questions:
                verb = "do anything (`*`) with" if one.verb == "*" else one.verb
                parts.setdefault((one.what, one.namespace), []).append(verb)
            what = listed(
                [
                    f"{', '.join(verbs)} {kind} {f'in namespace {namespace}' if namespace else _CLUSTER_WIDE}"
                    for (kind, namespace), verbs in parts.items()
                ],
                6,
            )
            risk = "who gets hold of its token may do that too, and Berth does not need it"
        by = f" by {given.kind} {given.place}" if given.kind else ""
        return Finding(
            self.name,
            Severity.warning,
            account.subject,
            f"role {account.role} may do more than it needs{by}: {what}",
            risk,
            await revoke(cluster, given, account.namespace, account.name),
        )


def _namespace(permission: Permission, account: Account) -> str:
    return {"cluster": "", "release": account.namespace, "system": SYSTEM_NAMESPACE}[permission.scope]
