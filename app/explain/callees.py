"""Who the API server asks about a new object: the webhooks and the policies of a cluster that match it.

As the API server matches: by rules, selectors and match conditions. What cannot be decided here (an expression beyond
the CEL that is known here, a Namespace that may not be read) matches perhaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.cel.matchconditions import Attributes, UserInfo
from app.cel.webhookrules import MatchFailed, is_exempt, match
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.kube.retry import every_item
from app.wire import JSON

_GROUP = MUTATING_WEBHOOKS.group
_VERSIONS = ("v1", "v1beta1", "v1alpha1")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Marks = frozenset[tuple[str, str]]
"""Webhooks by configuration and name."""


@dataclass(frozen=True, slots=True)
class Callee:
    """A webhook, or a policy with one of its bindings. `place` names what registers it.

    `certain` is False where it may be that it does not match. `words` are those of the expressions of a policy that
    changes objects; None where what it changes cannot be read. `ours` is True for a webhook of Berth.
    """

    name: str
    place: str
    kind: str = "webhook"
    certain: bool = True
    words: frozenset[str] | None = None
    ours: bool = False
    side_effects: str = ""

    @property
    def text(self) -> str:
        if self.ours:
            return f"Berth ({self.name}, {self.place})"
        return f"{self.kind} {self.name} ({self.place})"

    @property
    def said(self) -> str:
        return self.text + ("" if self.certain else ", perhaps")

    def may_change(self, names: Iterable[str]) -> bool:
        """Whether its expressions name the first fields of a path; True where they cannot be read."""
        return self.words is None or self.words.issuperset(names)


@dataclass(slots=True)
class Registrations:
    """What of a cluster asks about writes, in the order in which the API server calls it: policies before webhooks.

    `unread` has a text for each kind that may not be listed. Configurations are called by their names; of policies the
    API server keeps no order.
    """

    mutating: list[JSON] = field(default_factory=list)
    validating: list[JSON] = field(default_factory=list)
    policies: dict[str, tuple[list[JSON], list[JSON]]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    ours: Marks = frozenset()

    def callees(self, phase: str, seen: Seen) -> list[Callee]:
        """Those that match a new object in the phase, `Mutating` or `Validating`."""
        if is_exempt(seen.attributes.group, seen.attributes.resource):
            return []
        configurations = self.mutating if phase == "Mutating" else self.validating
        return [*_policies(phase, *self.policies.get(phase, ([], [])), seen), *self._webhooks(configurations, seen)]

    def _webhooks(self, configurations: Sequence[JSON], seen: Seen) -> Iterator[Callee]:
        for configuration in configurations:
            name = str(configuration["metadata"]["name"])
            for webhook in configuration.get("webhooks") or ():
                if (certain := seen.by(webhook)) is not None:
                    own = str(webhook.get("name"))
                    effects = str(webhook.get("sideEffects") or "")
                    ours = (name, own) in self.ours
                    yield Callee(own, f"{configuration['kind']} {name}", "webhook", certain, None, ours, effects)


@dataclass(frozen=True, slots=True)
class Seen:
    """A creation as admission sees it: before and after the changes, for any of the two may have been matched.

    `namespace` is the Namespace, None where it may not be read. `known` says whether the user is known.
    """

    attributes: Attributes
    states: tuple[JSON, ...]
    namespace: JSON | None
    versions: tuple[str, ...] = ()
    known: bool = True

    def by(self, rules: JSON) -> bool | None:
        """Whether rules, selectors and conditions in the form of a webhook match certainly; None if they do not."""
        answers = [self._matches(rules, state) for state in self.states]
        if all(answer is None for answer in answers):
            return None
        conditions = rules.get("matchConditions") or ()
        told = self.known or not any("userInfo" in str(condition.get("expression")) for condition in conditions)
        return told and all(answers)

    def _matches(self, rules: JSON, state: JSON) -> bool | None:
        if not self.known:
            rules = {**rules, "matchConditions": [*_without_user(rules.get("matchConditions") or ())]}
        try:
            target = match(rules, self.attributes, state, namespaces=lambda _: self.namespace, versions=self.versions)
        except (MatchFailed, ValueError):
            return False
        return None if target is None else True


def _without_user(conditions: Iterable[JSON]) -> Iterator[JSON]:
    return (condition for condition in conditions if "userInfo" not in str(condition.get("expression")))


def _policies(phase: str, policies: Sequence[JSON], bindings: Sequence[JSON], seen: Seen) -> Iterator[Callee]:
    by_name = {policy["metadata"]["name"]: policy for policy in policies}
    for binding in bindings:
        spec = binding.get("spec") or {}
        if (policy := by_name.get(spec.get("policyName"))) is None:
            continue
        conditions = policy["spec"].get("matchConditions") or []
        constraints = policy["spec"].get("matchConstraints") or {}
        name, limits = seen.attributes.name, spec.get("matchResources")
        first = seen.by(_as_webhook(constraints, name) | {"matchConditions": conditions})
        second = seen.by(_as_webhook(limits, name)) if limits else True
        excluded = (constraints, limits or {})
        if first is None or second is None or any(_excludes(part, name, seen) for part in excluded):
            continue
        own, place = policy["metadata"]["name"], f"{binding['kind']} {binding['metadata']['name']}"
        if phase == "Mutating":
            yield Callee(own, place, policy["kind"], first and second, _words(policy["spec"]))
        else:
            actions = ", ".join(map(str, spec.get("validationActions") or ()))
            yield Callee(own, f"{place}: {actions}", policy["kind"], first and second)


def _as_webhook(resources: JSON, name: str) -> JSON:
    """MatchResources of a policy or a binding in the form of a webhook; without rules they match all resources."""
    every = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*", "*/*"]}
    rules = resources.get("resourceRules") or [every]
    return {
        "rules": [rule for rule in rules if name in (rule.get("resourceNames") or [name])],
        "matchPolicy": resources.get("matchPolicy") or "Equivalent",
        "namespaceSelector": resources.get("namespaceSelector"),
        "objectSelector": resources.get("objectSelector"),
    }


def _excludes(resources: JSON, name: str, seen: Seen) -> bool:
    if not (rules := resources.get("excludeResourceRules")):
        return False
    excluding = _as_webhook({"resourceRules": rules, "matchPolicy": resources.get("matchPolicy")}, name)
    return seen.by(excluding) is not None


def _words(spec: JSON) -> frozenset[str] | None:
    """The words of its mutations and variables. With parameters the fields may be named elsewhere."""
    if spec.get("paramKind"):
        return None
    texts = [str(variable.get("expression")) for variable in spec.get("variables") or ()]
    for mutation in spec.get("mutations") or ():
        texts += [str((mutation.get(form) or {}).get("expression")) for form in ("applyConfiguration", "jsonPatch")]
    return frozenset(_WORD.findall(" ".join(texts)))


async def registrations_of(client: KubeClient, ours: Marks) -> Registrations:
    """Those of the cluster. Raises ApiError only where the API server does not answer."""
    registrations = Registrations(ours=ours)
    registrations.mutating, registrations.validating = [
        await _listed(client, [resource], registrations.unread) for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    ]
    for phase, word in (("Mutating", "mutating"), ("Validating", "validating")):
        kinds = {f"{word}admissionpolicies": f"{phase}AdmissionPolicy"}
        kinds |= {f"{word}admissionpolicybindings": f"{phase}AdmissionPolicyBinding"}
        policies, bindings = [
            await _listed(
                client,
                [Resource(_GROUP, version, plural, kind, namespaced=False) for version in _VERSIONS],
                registrations.unread,
            )
            for plural, kind in kinds.items()
        ]
        registrations.policies[phase] = policies, bindings
    return registrations


async def _listed(client: KubeClient, served: Sequence[Resource], unread: list[str]) -> list[JSON]:
    """All objects of a kind by name, in the first version that is served; none where it may not be listed."""
    for resource in served:
        try:
            items = [item async for item in every_item(lambda token, it=resource: _page(client, it, token))]  # type: ignore[misc]
        except ApiError as refusal:
            if refusal.not_found:
                continue
            if refusal.status != 403:
                raise
            unread.append(f"you have no right to list {resource.plural}: what they call is not shown")
            return []
        return sorted(items, key=lambda item: str(item["metadata"].get("name")))
    return []


async def _page(client: KubeClient, resource: Resource, token: str) -> Any:
    return await client.list_page(resource, continue_token=token)


async def user_of(client: KubeClient) -> UserInfo | None:
    """Who the API server takes us for; None where it does not say."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    except ApiError as refusal:
        if refusal.about_server:
            raise
        return None
    user: Mapping[str, Any] = (answer.get("status") or {}).get("userInfo") or {}
    return UserInfo(
        str(user.get("username") or ""), str(user.get("uid") or ""), user.get("groups") or [], user.get("extra") or {}
    )
