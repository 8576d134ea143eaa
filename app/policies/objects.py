"""The objects: policies, their bindings, and the condition that leaves the other Pods to the webhook. Pure.

What an API server limits is computed here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.cel.literals import listed, literal
from app.policies import injection, refusals
from app.policies.attachments import networks_in
from app.policies.cel import EXPRESSION_LIMIT, SHARD, Maps, maps
from app.policies.leaving import LeftOut, Variables
from app.policies.model import Left, Network, Registration, Terms
from app.policies.served import is_served, labels_of
from app.wire import JSON, encode_json

API_VERSION = "admissionregistration.k8s.io/v1"
OBJECT_LIMIT = 1_400_000
"""Bytes of a policy as JSON. etcd takes requests of 1.5 MiB, and the API server adds managedFields."""
CONDITION = "left-by-policies"
"""The name of the match condition of the webhook."""
LEAVING = "left"
"""The part of policies without a webhook that refuses what they leave, or warns of it."""
_INCOMPLETE = (
    "the Pod lacks what its networks need: a webhook has added its networks, and policies run before webhooks; "
    "the webhook of Berth serves such a Pod, with policies or without"
)
_PART_OF = {"app.kubernetes.io/part-of": "berth"}
POLICIES_OF = "berth.dev/policies-of"
"""Label on admission policies and their bindings, by `berth policies` and controller policies: what their names begin
with"""


@dataclass(frozen=True, slots=True)
class Generated:
    """`objects` are to be written together; `condition` is for the webhook, "" where there is none.

    `left` says what they do not do. `unconditional` are the networks that they serve and the webhook is called for all
    the same, since they do not fit into its condition.
    """

    objects: list[JSON] = field(default_factory=list)
    condition: str = ""
    networks: tuple[Network, ...] = ()
    left: tuple[Left, ...] = ()
    unconditional: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes as JSON, by kind and name."""
        return {f"{obj['kind']} {obj['metadata']['name']}": len(encode_json(obj)) for obj in self.objects}

    @property
    def longest(self) -> int:
        """Code points of the longest expression."""
        return max((len(text) for obj in self.objects for text in _expressions(obj)), default=0)


def generate(attachments: Iterable[JSON], terms: Terms) -> Generated:
    """The policies that serve what they can of these attachments on these terms.

    Where the terms let policies serve nothing, there are no objects, and `left` says why.
    """
    networks, left = networks_in(attachments, terms)
    if reason := _unable(terms):
        return Generated(left=(Left("every Pod", reason), *left))
    fitting = _fitting(networks, terms)
    left += [
        Left(f"NetworkAttachmentDefinition {network.key}", f"beyond it a policy has more than {OBJECT_LIMIT} bytes")
        for network in networks[len(fitting) :]
    ]
    objects = _objects(fitting, terms)
    if terms.mode != "both":
        return Generated(objects, "", tuple(fitting), tuple(left))
    condition, named = _condition(fitting, terms)
    return Generated(objects, condition, tuple(fitting), tuple(left), len(fitting) - named)


def _unable(terms: Terms) -> str:
    """Why policies can serve no Pod at all, "" where they can."""
    if terms.mode_in_force != "top-up":
        return f"amounts that Pods ask for themselves: {terms.mode_in_force}; policies know top-up alone"
    if terms.annotates:
        return "--injected-annotation: policies write into no Pod what they have injected"
    return ""


def _fitting(networks: Sequence[Network], terms: Terms) -> Sequence[Network]:
    """As many as fit, the first by their keys. A bound of what each adds, so that it need not be tried."""
    room = OBJECT_LIMIT - len(encode_json(_mutating([], terms))) - SHARD - 8192
    for index, network in enumerate(networks):
        room -= len(network.key) + len(network.resource) + 8
        if network.labels:
            room -= len(network.key) + 8 + sum(len(key) + len(value) + 8 for key, value in network.labels)
        if room < 0:
            return networks[:index]
    return networks


def _objects(networks: Sequence[Network], terms: Terms) -> list[JSON]:
    policies = [_mutating(networks, terms), _refusing(networks, terms)]
    actions = [None, ["Deny"]]
    if terms.mode == "policies":
        policies.append(_leaving(networks, terms))
        actions.append(["Deny"] if terms.registration.failure_policy != "Ignore" else ["Warn"])
        if terms.attachments is not None:
            policies.append(_checking(terms, terms.attachments))
            actions.append(["Deny"])
    bindings = [_binding(policy, action) for policy, action in zip(policies, actions, strict=True)]
    return [*policies, *bindings]


def _maps(networks: Sequence[Network]) -> tuple[Maps, Maps]:
    resources = maps("resources", [(network.key, literal(network.resource)) for network in networks])
    labeled = [network for network in networks if network.labels]
    return resources, maps("selectors", [(network.key, labels_of(network)) for network in labeled])


def _judging(networks: Sequence[Network], terms: Terms) -> tuple[Variables, Maps]:
    resources, selectors = _maps(networks)
    left, demand = LeftOut(terms).unknown(resources), injection.demand(resources, selectors)
    return [*left, *demand, *injection.refused(terms, selectors)], selectors


def _taken(networks: Sequence[Network], terms: Terms) -> tuple[str, str]:
    """The condition of a Pod that policies take. One that is left is not even decoded and encoded by them."""
    return "takes-networks", f"!({is_served(networks, terms)}) && {LeftOut(terms).taken()}"


def _mutating(networks: Sequence[Network], terms: Terms) -> JSON:
    variables, selectors = _judging(networks, terms)
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": injection.mutation(selectors)}}
    return _policy(
        "MutatingAdmissionPolicy",
        "networks",
        terms,
        condition=_taken(networks, terms),
        variables=[*variables, *injection.injected()],
        mutations=[mutation],
        reinvocationPolicy="IfNeeded",
    )


def _refusing(networks: Sequence[Network], terms: Terms) -> JSON:
    variables, selectors = _judging(networks, terms)
    validations = [_validation("variables.refused == ''", "variables.refused")]
    if terms.registration.failure_policy != "Ignore":
        validations.append(_validation(injection.complete(selectors), literal(_INCOMPLETE)))
        variables = [*variables, *injection.injected()]
    return _policy(
        "ValidatingAdmissionPolicy",
        "networks",
        terms,
        condition=_taken(networks, terms),
        variables=variables,
        validations=validations,
    )


def _leaving(networks: Sequence[Network], terms: Terms) -> JSON:
    resources, _ = _maps(networks)
    message = "variables.left + " + literal("; only the webhook of Berth serves such a Pod, and it is not installed")
    return _policy(
        "ValidatingAdmissionPolicy",
        LEAVING,
        terms,
        condition=("is-not-served", f"!({is_served(networks, terms)})"),
        variables=LeftOut(terms).variables(resources),
        validations=[_validation("variables.left == ''", message)],
    )


def _checking(terms: Terms, registration: Registration) -> JSON:
    """Of attachments."""
    validations = [_validation(expression, literal(said)) for expression, said in refusals.validations(terms)]
    constraints = {
        "matchPolicy": "Equivalent",
        "namespaceSelector": registration.namespace_selector,
        "objectSelector": registration.object_selector,
        "resourceRules": [refusals.RULE],
    }
    spec = {
        "failurePolicy": registration.failure_policy,
        "matchConstraints": constraints,
        "matchConditions": [
            *registration.conditions,
            {"name": "is-not-part-of-a-deletion", "expression": refusals.REVIEWED},
        ],
        "variables": refusals.variables(),
        "validations": validations,
    }
    return _object("ValidatingAdmissionPolicy", "attachments", terms, spec)


def _validation(expression: str, message: str) -> JSON:
    return {"expression": expression, "messageExpression": message, "reason": "Forbidden"}


def _policy(
    kind: str,
    part: str,
    terms: Terms,
    *,
    condition: tuple[str, str],
    variables: Variables,
    **fields: object,
) -> JSON:
    name, expression = condition
    registration = terms.registration
    constraints: JSON = {
        "matchPolicy": "Equivalent",
        "namespaceSelector": registration.namespace_selector,
        "objectSelector": registration.object_selector,
        "resourceRules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
    }
    carried = [condition["expression"] for condition in registration.conditions if condition["name"] != CONDITION]
    spec = {
        "failurePolicy": registration.failure_policy,
        "matchConstraints": constraints,
        "matchConditions": _conditions([*carried, expression], name),
        "variables": variables,
        **fields,
    }
    return _object(kind, part, terms, spec)


def _conditions(expressions: Sequence[str], name: str) -> list[JSON]:
    """One, where it is short enough: an API server evaluates each of several, also behind one that is false."""
    joined = " && ".join(f"({expression})" for expression in expressions)
    if len(joined) <= EXPRESSION_LIMIT:
        return [{"name": name, "expression": joined}]
    return [{"name": f"{name}-{index}", "expression": expression} for index, expression in enumerate(expressions)]


def _object(kind: str, part: str, terms: Terms, spec: JSON) -> JSON:
    metadata = {"name": terms.object_name(part), "labels": _PART_OF | {POLICIES_OF: terms.name}}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _binding(policy: JSON, actions: list[str] | None) -> JSON:
    name = policy["metadata"]["name"]
    return {
        "apiVersion": API_VERSION,
        "kind": f"{policy['kind']}Binding",
        "metadata": {"name": name, "labels": policy["metadata"]["labels"]},
        "spec": {"policyName": name} | ({"validationActions": actions} if actions else {}),
    }


def _condition(networks: Sequence[Network], terms: Terms) -> tuple[str, int]:
    """The condition of the webhook, and how many networks it names."""
    rules = LeftOut(terms)
    room = SHARD - len(rules.condition("{}", "['']"))
    places: dict[str, int] = {}
    named: list[str] = []
    for network in networks:
        texts = [network.resource, *(f"{key}={value}" for key, value in network.labels)]
        added = [text for text in dict.fromkeys(texts) if text not in places]
        numbers = places | {text: len(places) + index for index, text in enumerate(added)}
        entry = f"{literal(network.key)}: [{', '.join(str(numbers[text]) for text in texts)}]"
        room -= len(entry) + 2 + sum(len(literal(text)) + 2 for text in added)
        if room < 0:
            break
        places = numbers
        named.append(entry)
    listed_texts = listed(places) if places else "['']"
    return rules.condition(f"{{{', '.join(named)}}}", listed_texts), len(named)


def _expressions(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key in ("expression", "messageExpression") and isinstance(member, str):
                yield member
            else:
                yield from _expressions(member)
    elif isinstance(value, list):
        for item in value:
            yield from _expressions(item)
