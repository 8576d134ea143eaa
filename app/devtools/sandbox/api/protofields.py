"""Field numbers of the kinds that kubectl sends as protobuf, as far as its commands fill them: facts, no behavior.

A field is its JSON name and a type: `s` text, `i` number, `b` boolean (zero means absent), `I` and `B` the same where
zero is a value, `y` bytes, `q` quantity, `x` number or text, `-` ignored, `{"*": type}` a map, `[type]` a list, or a
message of its own.
"""

from __future__ import annotations

from typing import Any

Message = dict[int, tuple[str, Any]]

_STRINGS = {"*": "s"}
_SELECTOR: Message = {
    1: ("matchLabels", _STRINGS),
    2: ("matchExpressions", [{1: ("key", "s"), 2: ("operator", "s"), 3: ("values", ["s"])}]),
}
_OWNER: Message = {
    5: ("apiVersion", "s"),
    1: ("kind", "s"),
    3: ("name", "s"),
    4: ("uid", "s"),
    6: ("controller", "B"),
    7: ("blockOwnerDeletion", "B"),
}
_META: Message = {
    1: ("name", "s"),
    2: ("generateName", "s"),
    3: ("namespace", "s"),
    4: ("selfLink", "-"),
    5: ("uid", "s"),
    6: ("resourceVersion", "s"),
    7: ("generation", "-"),
    8: ("creationTimestamp", "-"),
    9: ("deletionTimestamp", "-"),
    10: ("deletionGracePeriodSeconds", "-"),
    11: ("labels", _STRINGS),
    12: ("annotations", _STRINGS),
    13: ("ownerReferences", [_OWNER]),
    14: ("finalizers", ["s"]),
    17: ("managedFields", "-"),
}
_RESOURCES: Message = {1: ("limits", {"*": "q"}), 2: ("requests", {"*": "q"})}
_PORT: Message = {
    1: ("name", "s"),
    2: ("hostPort", "i"),
    3: ("containerPort", "i"),
    4: ("protocol", "s"),
    5: ("hostIP", "s"),
}
_CONTAINER: Message = {
    1: ("name", "s"),
    2: ("image", "s"),
    3: ("command", ["s"]),
    4: ("args", ["s"]),
    5: ("workingDir", "s"),
    6: ("ports", [_PORT]),
    7: ("env", [{1: ("name", "s"), 2: ("value", "s")}]),
    8: ("resources", _RESOURCES),
    13: ("terminationMessagePath", "s"),
    14: ("imagePullPolicy", "s"),
    16: ("stdin", "b"),
    17: ("stdinOnce", "b"),
    18: ("tty", "b"),
    20: ("terminationMessagePolicy", "s"),
}
_POD_SPEC: Message = {
    2: ("containers", [_CONTAINER]),
    20: ("initContainers", [_CONTAINER]),
    3: ("restartPolicy", "s"),
    4: ("terminationGracePeriodSeconds", "I"),
    5: ("activeDeadlineSeconds", "I"),
    6: ("dnsPolicy", "s"),
    7: ("nodeSelector", _STRINGS),
    8: ("serviceAccountName", "s"),
    9: ("serviceAccount", "s"),
    10: ("nodeName", "s"),
    11: ("hostNetwork", "b"),
    12: ("hostPID", "b"),
    13: ("hostIPC", "b"),
    16: ("hostname", "s"),
    17: ("subdomain", "s"),
    19: ("schedulerName", "s"),
    24: ("priorityClassName", "s"),
}
_TEMPLATE: Message = {1: ("metadata", _META), 2: ("spec", _POD_SPEC)}
_JOB_SPEC: Message = {
    1: ("parallelism", "I"),
    2: ("completions", "I"),
    3: ("activeDeadlineSeconds", "I"),
    4: ("selector", _SELECTOR),
    6: ("template", _TEMPLATE),
    7: ("backoffLimit", "I"),
    8: ("ttlSecondsAfterFinished", "I"),
    10: ("suspend", "B"),
}
_ATTRIBUTES: Message = {
    1: ("namespace", "s"),
    2: ("verb", "s"),
    3: ("group", "s"),
    4: ("version", "s"),
    5: ("resource", "s"),
    6: ("subresource", "s"),
    7: ("name", "s"),
}
_ACCESS: Message = {
    1: ("resourceAttributes", _ATTRIBUTES),
    2: ("nonResourceAttributes", {1: ("path", "s"), 2: ("verb", "s")}),
}
_RULES = [
    {
        1: ("verbs", ["s"]),
        2: ("apiGroups", ["s"]),
        3: ("resources", ["s"]),
        4: ("resourceNames", ["s"]),
        5: ("nonResourceURLs", ["s"]),
    }
]
_SUBJECTS = [{1: ("kind", "s"), 2: ("apiGroup", "s"), 3: ("name", "s"), 4: ("namespace", "s")}]
_ROLE_REF: Message = {1: ("apiGroup", "s"), 2: ("kind", "s"), 3: ("name", "s")}
_SERVICE_PORT: Message = {
    1: ("name", "s"),
    2: ("protocol", "s"),
    3: ("port", "i"),
    4: ("targetPort", "x"),
    5: ("nodePort", "i"),
}
_SERVICE: Message = {
    1: ("ports", [_SERVICE_PORT]),
    2: ("selector", _STRINGS),
    3: ("clusterIP", "s"),
    18: ("clusterIPs", ["s"]),
    4: ("type", "s"),
    7: ("sessionAffinity", "s"),
    8: ("loadBalancerIP", "s"),
    10: ("externalName", "s"),
    11: ("externalTrafficPolicy", "s"),
    12: ("healthCheckNodePort", "i"),
    13: ("publishNotReadyAddresses", "b"),
}
_DELETE_OPTIONS: Message = {
    1: ("gracePeriodSeconds", "I"),
    2: ("preconditions", {1: ("uid", "s"), 2: ("resourceVersion", "s")}),
    3: ("orphanDependents", "B"),
    4: ("propagationPolicy", "s"),
    5: ("dryRun", ["s"]),
}
_BUDGET: Message = {1: ("minAvailable", "x"), 2: ("selector", _SELECTOR), 3: ("maxUnavailable", "x")}
_LEASE: Message = {1: ("holderIdentity", "s"), 2: ("leaseDurationSeconds", "I"), 5: ("leaseTransitions", "I")}


_TOKEN: Message = {
    1: ("audiences", ["s"]),
    3: ("boundObjectRef", {1: ("kind", "s"), 2: ("apiVersion", "s"), 3: ("name", "s"), 4: ("uid", "s")}),
    4: ("expirationSeconds", "I"),
}


def _with_spec(spec: Message) -> Message:
    return {1: ("metadata", _META), 2: ("spec", spec), 3: ("status", "-")}


KINDS: dict[str, Message] = {
    "SelfSubjectAccessReview": _with_spec(_ACCESS),
    "SubjectAccessReview": _with_spec({**_ACCESS, 3: ("user", "s"), 4: ("groups", ["s"]), 6: ("uid", "s")}),
    "LocalSubjectAccessReview": _with_spec({**_ACCESS, 3: ("user", "s"), 4: ("groups", ["s"]), 6: ("uid", "s")}),
    "SelfSubjectRulesReview": _with_spec({1: ("namespace", "s")}),
    "SelfSubjectReview": {1: ("metadata", _META), 2: ("status", "-")},
    "TokenReview": _with_spec({1: ("token", "s"), 2: ("audiences", ["s"])}),
    "ConfigMap": {
        1: ("metadata", _META),
        2: ("data", _STRINGS),
        3: ("binaryData", {"*": "y"}),
        4: ("immutable", "B"),
    },
    "Secret": {
        1: ("metadata", _META),
        2: ("data", {"*": "y"}),
        3: ("type", "s"),
        4: ("stringData", _STRINGS),
        5: ("immutable", "B"),
    },
    "Namespace": _with_spec({1: ("finalizers", ["s"])}),
    "ServiceAccount": {1: ("metadata", _META), 4: ("automountServiceAccountToken", "B")},
    "Role": {1: ("metadata", _META), 2: ("rules", _RULES)},
    "ClusterRole": {1: ("metadata", _META), 2: ("rules", _RULES)},
    "RoleBinding": {1: ("metadata", _META), 2: ("subjects", _SUBJECTS), 3: ("roleRef", _ROLE_REF)},
    "ClusterRoleBinding": {1: ("metadata", _META), 2: ("subjects", _SUBJECTS), 3: ("roleRef", _ROLE_REF)},
    "Service": _with_spec(_SERVICE),
    "Deployment": _with_spec(
        {
            1: ("replicas", "I"),
            2: ("selector", _SELECTOR),
            3: ("template", _TEMPLATE),
            4: ("strategy", {1: ("type", "s")}),
        }
    ),
    "Job": _with_spec(_JOB_SPEC),
    "CronJob": _with_spec(
        {
            1: ("schedule", "s"),
            2: ("startingDeadlineSeconds", "I"),
            3: ("concurrencyPolicy", "s"),
            4: ("suspend", "B"),
            5: ("jobTemplate", {1: ("metadata", _META), 2: ("spec", _JOB_SPEC)}),
        }
    ),
    "PriorityClass": {
        1: ("metadata", _META),
        2: ("value", "i"),
        3: ("globalDefault", "b"),
        4: ("description", "s"),
        5: ("preemptionPolicy", "s"),
    },
    "ResourceQuota": _with_spec({1: ("hard", {"*": "q"}), 2: ("scopes", ["s"])}),
    "PodDisruptionBudget": _with_spec(_BUDGET),
    "Pod": _with_spec(_POD_SPEC),
    "Lease": {1: ("metadata", _META), 2: ("spec", _LEASE)},
    "Eviction": {1: ("metadata", _META), 2: ("deleteOptions", _DELETE_OPTIONS)},
    "DeleteOptions": _DELETE_OPTIONS,
    "TokenRequest": _with_spec(_TOKEN),
}
