"""The fields of a Pod's spec and what hangs below it, as shapes (see `shapes`): facts, no behavior."""

from __future__ import annotations

from typing import Any

STRINGS = {"*": "s"}
QUANTITIES = {"*": "q"}
LABEL_SELECTOR: dict[str, Any] = {
    "matchLabels": STRINGS,
    "matchExpressions": [{"key": "s", "operator": "s", "values": ["s"]}],
}
_KEY_PATHS = [{"key": "s", "path": "s", "mode": "i"}]
_NAMED = {"name": "s"}
_FIELD_REF = {"apiVersion": "s", "fieldPath": "s"}
_RESOURCE_FIELD_REF = {"containerName": "s", "resource": "s", "divisor": "q"}
_KEY_REF = {"name": "s", "key": "s", "optional": "b"}
_DOWNWARD_ITEMS = [{"path": "s", "mode": "i", "fieldRef": _FIELD_REF, "resourceFieldRef": _RESOURCE_FIELD_REF}]
_HEADERS = [{"name": "s", "value": "s"}]
_HTTP_GET = {"path": "s", "port": "x", "host": "s", "scheme": "s", "httpHeaders": _HEADERS}
_HANDLER: dict[str, Any] = {
    "exec": {"command": ["s"]},
    "httpGet": _HTTP_GET,
    "tcpSocket": {"port": "x", "host": "s"},
}
_PROBE: dict[str, Any] = {
    **_HANDLER,
    "grpc": {"port": "i", "service": "s"},
    "initialDelaySeconds": "i",
    "timeoutSeconds": "i",
    "periodSeconds": "i",
    "successThreshold": "i",
    "failureThreshold": "i",
    "terminationGracePeriodSeconds": "i",
}
_HOOK: dict[str, Any] = {**_HANDLER, "sleep": {"seconds": "i"}}
_SECURITY_PROFILES: dict[str, Any] = {
    "seLinuxOptions": {"user": "s", "role": "s", "type": "s", "level": "s"},
    "windowsOptions": {
        "gmsaCredentialSpecName": "s",
        "gmsaCredentialSpec": "s",
        "runAsUserName": "s",
        "hostProcess": "b",
    },
    "runAsUser": "i",
    "runAsGroup": "i",
    "runAsNonRoot": "b",
    "seccompProfile": {"type": "s", "localhostProfile": "s"},
    "appArmorProfile": {"type": "s", "localhostProfile": "s"},
}
_CONTAINER_SECURITY: dict[str, Any] = {
    **_SECURITY_PROFILES,
    "capabilities": {"add": ["s"], "drop": ["s"]},
    "privileged": "b",
    "readOnlyRootFilesystem": "b",
    "allowPrivilegeEscalation": "b",
    "procMount": "s",
}
_POD_SECURITY: dict[str, Any] = {
    **_SECURITY_PROFILES,
    "supplementalGroups": ["i"],
    "supplementalGroupsPolicy": "s",
    "fsGroup": "i",
    "fsGroupChangePolicy": "s",
    "seLinuxChangePolicy": "s",
    "sysctls": [{"name": "s", "value": "s"}],
}
RESOURCES: dict[str, Any] = {
    "limits": QUANTITIES,
    "requests": QUANTITIES,
    "claims": [{"name": "s", "request": "s"}],
}
CONTAINER: dict[str, Any] = {
    "name": "s",
    "image": "s",
    "command": ["s"],
    "args": ["s"],
    "workingDir": "s",
    "ports": [{"name": "s", "hostPort": "i", "containerPort": "i", "protocol": "s", "hostIP": "s"}],
    "envFrom": [
        {
            "prefix": "s",
            "configMapRef": {"name": "s", "optional": "b"},
            "secretRef": {"name": "s", "optional": "b"},
        }
    ],
    "env": [
        {
            "name": "s",
            "value": "s",
            "valueFrom": {
                "fieldRef": _FIELD_REF,
                "resourceFieldRef": _RESOURCE_FIELD_REF,
                "configMapKeyRef": _KEY_REF,
                "secretKeyRef": _KEY_REF,
                "fileKeyRef": {"volumeName": "s", "path": "s", "key": "s", "optional": "b"},
            },
        }
    ],
    "resources": RESOURCES,
    "resizePolicy": [{"resourceName": "s", "restartPolicy": "s"}],
    "restartPolicy": "s",
    "restartPolicyRules": [{"action": "s", "exitCodes": {"operator": "s", "values": ["i"]}}],
    "volumeMounts": [
        {
            "name": "s",
            "readOnly": "b",
            "recursiveReadOnly": "s",
            "mountPath": "s",
            "subPath": "s",
            "subPathExpr": "s",
            "mountPropagation": "s",
        }
    ],
    "volumeDevices": [{"name": "s", "devicePath": "s"}],
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": {"postStart": _HOOK, "preStop": _HOOK, "stopSignal": "s"},
    "terminationMessagePath": "s",
    "terminationMessagePolicy": "s",
    "imagePullPolicy": "s",
    "securityContext": _CONTAINER_SECURITY,
    "stdin": "b",
    "stdinOnce": "b",
    "tty": "b",
}
_OTHER_VOLUMES = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
    "iscsi",
]
VOLUME_SOURCES: dict[str, Any] = {
    "hostPath": {"path": "s", "type": "s"},
    "emptyDir": {"medium": "s", "sizeLimit": "q"},
    "secret": {"secretName": "s", "items": _KEY_PATHS, "defaultMode": "i", "optional": "b"},
    "configMap": {"name": "s", "items": _KEY_PATHS, "defaultMode": "i", "optional": "b"},
    "downwardAPI": {"items": _DOWNWARD_ITEMS, "defaultMode": "i"},
    "projected": {
        "defaultMode": "i",
        "sources": [
            {
                "secret": {"name": "s", "items": _KEY_PATHS, "optional": "b"},
                "configMap": {"name": "s", "items": _KEY_PATHS, "optional": "b"},
                "downwardAPI": {"items": _DOWNWARD_ITEMS},
                "serviceAccountToken": {"audience": "s", "expirationSeconds": "i", "path": "s"},
                "clusterTrustBundle": "*",
                "podCertificate": "*",
            }
        ],
    },
    "nfs": {"server": "s", "path": "s", "readOnly": "b"},
    "persistentVolumeClaim": {"claimName": "s", "readOnly": "b"},
    "csi": {
        "driver": "s",
        "readOnly": "b",
        "fsType": "s",
        "volumeAttributes": STRINGS,
        "nodePublishSecretRef": _NAMED,
    },
    "ephemeral": {"volumeClaimTemplate": "*"},
    "image": {"reference": "s", "pullPolicy": "s"},
    **{name: {"*": "*"} for name in _OTHER_VOLUMES},
}
_NODE_TERM: dict[str, Any] = {
    "matchExpressions": [{"key": "s", "operator": "s", "values": ["s"]}],
    "matchFields": [{"key": "s", "operator": "s", "values": ["s"]}],
}
_POD_TERM: dict[str, Any] = {
    "labelSelector": LABEL_SELECTOR,
    "namespaces": ["s"],
    "topologyKey": "s",
    "namespaceSelector": LABEL_SELECTOR,
    "matchLabelKeys": ["s"],
    "mismatchLabelKeys": ["s"],
}
_POD_AFFINITY: dict[str, Any] = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": "i", "podAffinityTerm": _POD_TERM}],
}
POD_SPEC: dict[str, Any] = {
    "volumes": [{"name": "s", **VOLUME_SOURCES}],
    "initContainers": [CONTAINER],
    "containers": [CONTAINER],
    "ephemeralContainers": [{**CONTAINER, "targetContainerName": "s"}],
    "restartPolicy": "s",
    "terminationGracePeriodSeconds": "i",
    "activeDeadlineSeconds": "i",
    "dnsPolicy": "s",
    "nodeSelector": STRINGS,
    "serviceAccountName": "s",
    "serviceAccount": "s",
    "automountServiceAccountToken": "b",
    "nodeName": "s",
    "hostNetwork": "b",
    "hostPID": "b",
    "hostIPC": "b",
    "shareProcessNamespace": "b",
    "securityContext": _POD_SECURITY,
    "imagePullSecrets": [_NAMED],
    "hostname": "s",
    "subdomain": "s",
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": "i", "preference": _NODE_TERM}],
        },
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    },
    "schedulerName": "s",
    "tolerations": [{"key": "s", "operator": "s", "value": "s", "effect": "s", "tolerationSeconds": "i"}],
    "hostAliases": [{"ip": "s", "hostnames": ["s"]}],
    "priorityClassName": "s",
    "priority": "i",
    "dnsConfig": {"nameservers": ["s"], "searches": ["s"], "options": [{"name": "s", "value": "s"}]},
    "readinessGates": [{"conditionType": "s"}],
    "runtimeClassName": "s",
    "enableServiceLinks": "b",
    "preemptionPolicy": "s",
    "overhead": QUANTITIES,
    "topologySpreadConstraints": [
        {
            "maxSkew": "i",
            "topologyKey": "s",
            "whenUnsatisfiable": "s",
            "labelSelector": LABEL_SELECTOR,
            "minDomains": "i",
            "nodeAffinityPolicy": "s",
            "nodeTaintsPolicy": "s",
            "matchLabelKeys": ["s"],
        }
    ],
    "setHostnameAsFQDN": "b",
    "os": _NAMED,
    "hostUsers": "b",
    "schedulingGates": [_NAMED],
    "resourceClaims": [{"name": "s", "resourceClaimName": "s", "resourceClaimTemplateName": "s"}],
    "resources": RESOURCES,
    "hostnameOverride": "s",
    "workloadRef": "*",
    "schedulingGroup": "*",
}
