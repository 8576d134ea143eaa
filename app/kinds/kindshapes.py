"""The fields of the built-in kinds as shapes (see `shapes`); what the sandbox only stores stays open (`*`)."""

from __future__ import annotations

from typing import Any

from app.kinds.podshapes import LABEL_SELECTOR, POD_SPEC, QUANTITIES, STRINGS

OBJECT_META: dict[str, Any] = {
    "name": "s",
    "generateName": "s",
    "namespace": "s",
    "selfLink": "s",
    "uid": "s",
    "resourceVersion": "s",
    "generation": "i",
    "creationTimestamp": "s",
    "deletionTimestamp": "s",
    "deletionGracePeriodSeconds": "i",
    "labels": STRINGS,
    "annotations": STRINGS,
    "ownerReferences": [
        {"apiVersion": "s", "kind": "s", "name": "s", "uid": "s", "controller": "b", "blockOwnerDeletion": "b"}
    ],
    "finalizers": ["s"],
    "managedFields": [
        {
            "manager": "s",
            "operation": "s",
            "apiVersion": "s",
            "time": "s",
            "fieldsType": "s",
            "fieldsV1": {"*": "*"},
            "subresource": "s",
        }
    ],
}
_OPEN: dict[str, Any] = {"*": "*"}
_TEMPLATE = {"metadata": OBJECT_META, "spec": POD_SPEC}
_WORKLOAD = {"spec": {"*": "*", "replicas": "i", "selector": LABEL_SELECTOR, "template": _TEMPLATE}, "status": _OPEN}
_DAEMON_SET: dict[str, Any] = {
    "spec": {
        "selector": LABEL_SELECTOR,
        "template": _TEMPLATE,
        "updateStrategy": {"type": "s", "rollingUpdate": {"maxUnavailable": "x", "maxSurge": "x"}},
        "minReadySeconds": "i",
        "revisionHistoryLimit": "i",
    },
    "status": _OPEN,
}
_JOB_SPEC = {"*": "*", "selector": LABEL_SELECTOR, "template": _TEMPLATE, "parallelism": "i", "completions": "i"}
_CONDITION = {
    "type": "s",
    "status": "s",
    "reason": "s",
    "message": "s",
    "lastProbeTime": "s",
    "lastTransitionTime": "s",
    "observedGeneration": "i",
}
_RULES = [{"apiGroups": ["s"], "resources": ["s"], "verbs": ["s"], "resourceNames": ["s"], "nonResourceURLs": ["s"]}]
_BINDING = {
    "subjects": [{"kind": "s", "apiGroup": "s", "name": "s", "namespace": "s"}],
    "roleRef": {"apiGroup": "s", "kind": "s", "name": "s"},
}
_WEBHOOK = {
    "name": "s",
    "clientConfig": {
        "url": "s",
        "caBundle": "y",
        "service": {"name": "s", "namespace": "s", "path": "s", "port": "i"},
    },
    "rules": [{"operations": ["s"], "apiGroups": ["s"], "apiVersions": ["s"], "resources": ["s"], "scope": "s"}],
    "failurePolicy": "s",
    "matchPolicy": "s",
    "namespaceSelector": LABEL_SELECTOR,
    "objectSelector": LABEL_SELECTOR,
    "sideEffects": "s",
    "timeoutSeconds": "i",
    "admissionReviewVersions": ["s"],
    "matchConditions": [{"name": "s", "expression": "s"}],
}
_CRD_VERSION = {
    "name": "s",
    "served": "b",
    "storage": "b",
    "deprecated": "b",
    "deprecationWarning": "s",
    "schema": {"openAPIV3Schema": _OPEN},
    "subresources": {"status": _OPEN, "scale": STRINGS},
    "additionalPrinterColumns": [
        {"name": "s", "type": "s", "format": "s", "description": "s", "priority": "i", "jsonPath": "s"}
    ],
    "selectableFields": [{"jsonPath": "s"}],
}
_CRD_NAMES = {
    "plural": "s",
    "singular": "s",
    "shortNames": ["s"],
    "kind": "s",
    "listKind": "s",
    "categories": ["s"],
}
KINDS: dict[str, dict[str, Any]] = {
    "Pod": {"spec": POD_SPEC, "status": {**_OPEN, "conditions": [_CONDITION], "phase": "s"}},
    "Node": {
        "spec": {
            "podCIDR": "s",
            "podCIDRs": ["s"],
            "providerID": "s",
            "unschedulable": "b",
            "taints": [{"key": "s", "value": "s", "effect": "s", "timeAdded": "s"}],
            "configSource": "*",
            "externalID": "s",
        },
        "status": {
            **_OPEN,
            "capacity": QUANTITIES,
            "allocatable": QUANTITIES,
            "conditions": [{**_CONDITION, "*": "*"}],
        },
    },
    "Namespace": {"spec": {"finalizers": ["s"]}, "status": {"phase": "s", "conditions": [_CONDITION]}},
    "ConfigMap": {"data": STRINGS, "binaryData": {"*": "y"}, "immutable": "b"},
    "Secret": {"data": {"*": "y"}, "stringData": STRINGS, "type": "s", "immutable": "b"},
    "ServiceAccount": {"secrets": ["*"], "imagePullSecrets": ["*"], "automountServiceAccountToken": "b"},
    "Service": {
        "spec": {**_OPEN, "ports": [{**_OPEN, "port": "i", "targetPort": "x"}], "selector": STRINGS},
        "status": _OPEN,
    },
    "Lease": {
        "spec": {
            "holderIdentity": "s",
            "leaseDurationSeconds": "i",
            "acquireTime": "s",
            "renewTime": "s",
            "leaseTransitions": "i",
            "strategy": "s",
            "preferredHolder": "s",
        }
    },
    "Deployment": _WORKLOAD,
    "ReplicaSet": _WORKLOAD,
    "DaemonSet": _DAEMON_SET,
    "StatefulSet": _WORKLOAD,
    "Job": {"spec": _JOB_SPEC, "status": _OPEN},
    "CronJob": {"spec": {**_OPEN, "jobTemplate": {"metadata": OBJECT_META, "spec": _JOB_SPEC}}, "status": _OPEN},
    "Role": {"rules": _RULES},
    "ClusterRole": {"rules": _RULES, "aggregationRule": _OPEN},
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "MutatingWebhookConfiguration": {"webhooks": [{**_WEBHOOK, "reinvocationPolicy": "s"}]},
    "ValidatingWebhookConfiguration": {"webhooks": [_WEBHOOK]},
    "CustomResourceDefinition": {
        "spec": {
            "group": "s",
            "names": _CRD_NAMES,
            "scope": "s",
            "versions": [_CRD_VERSION],
            "conversion": {"strategy": "s", "webhook": _OPEN},
            "preserveUnknownFields": "b",
        },
        "status": {
            "conditions": [_CONDITION],
            "acceptedNames": _CRD_NAMES,
            "storedVersions": ["s"],
            "observedGeneration": "i",
        },
    },
    "PriorityClass": {"value": "i", "globalDefault": "b", "description": "s", "preemptionPolicy": "s"},
    "SubjectAccessReview": {"spec": _OPEN, "status": _OPEN},
    "PodDisruptionBudget": {"spec": _OPEN, "status": _OPEN},
    "NetworkPolicy": {"spec": _OPEN},
    "ResourceQuota": {
        "spec": {
            "hard": QUANTITIES,
            "scopes": ["s"],
            "scopeSelector": {"matchExpressions": [{"scopeName": "s", "operator": "s", "values": ["s"]}]},
        },
        "status": {"hard": QUANTITIES, "used": QUANTITIES},
    },
}
