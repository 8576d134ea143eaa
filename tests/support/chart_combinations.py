"""The sets of values that matter: each role alone and all together, each way to certificates, every switch off."""

from __future__ import annotations

from typing import Any

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

NOTHING: dict[str, Any] = {"webhook": {"enabled": False}}
INFRA: dict[str, Any] = {
    "webhook": {"args": {"confineTenants": True}},
    "controller": {"enabled": True},
    "gateway": {"enabled": True, "certificate": {"dnsNames": ["gateway.example"], "addresses": ["10.0.0.9"]}},
}
AGENT: dict[str, Any] = {"agent": {"enabled": True, "gateway": "gateway.example:30001"}}
PAGE: dict[str, Any] = {"ui": {"enabled": True}}
ALL: dict[str, Any] = INFRA | AGENT | PAGE
CALLER_TOKEN = "caller" * 11
WRAPPERS: dict[str, Any] = {
    "webhook": {"args": {"appwrappers": True, "appwrapperStrict": True}, "callerToken": CALLER_TOKEN},
    "controller": {
        "enabled": True,
        "args": {"controllers": ["appwrappers", "appwrapper-workloads"], "wrappedKinds": ["pods", "jobs.batch"]},
    },
}
AUTHORS: dict[str, Any] = {
    mode: WRAPPERS
    | {
        "controller": {
            "enabled": True,
            "args": {
                "controllers": ["appwrappers"],
                "wrappedKinds": ["pods", "jobs.batch"],
                "appwrapperImpersonation": mode,
            },
        }
    }
    for mode in ("constrained", "legacy")
}
"""App wrappers whose components are created as their authors, by the way in which that is permitted."""
RMD: dict[str, Any] = {"controller": {"enabled": True, "args": {"controllers": ["rmd"]}}}
REVIEWED: dict[str, Any] = {
    "webhook": {"args": {"rmdBackend": "auto", "rmdUnreserved": "warn"}, "callerToken": CALLER_TOKEN}
}
INJECTED_CLAIMS: dict[str, Any] = {
    "webhook": {"args": {"claims": True}, "callerToken": CALLER_TOKEN},
    "controller": {"enabled": True, "args": {"controllers": ["claim-templates"], "claimTemplates": "pairs"}},
}
CHECKED_CLAIMS: dict[str, Any] = {
    "webhook": {"args": {"claims": True, "claimsDenyDrivers": ["dra.net"]}, "callerToken": CALLER_TOKEN},
    "claims": {"formatPolicy": "Warn"},
}
EVERY_CONTROLLER: dict[str, Any] = {
    "controller": {"enabled": True, "args": {"controllers": ["workloads", "tenants", "appwrappers", "rmd"]}}
}

ARGS: dict[str, Any] = {
    "webhook": {
        "args": {
            "networkResourceNameKeys": ["a/x", "b/y"],
            "existingResources": "skip",
            "nodeSelectorConflict": "deny",
            "injectHugepageDownApi": True,
            "injectedAnnotation": True,
            "defaultNetworkNamespace": "multus",
            "confineTenants": True,
            "workers": 3,
            "drainSeconds": 7.5,
            "undecidedBytes": 33554432,
            "deadlineSeconds": 2.5,
            "clientCA": {"secret": "ca", "key": "api.crt"},
            "rmdBackend": "runtime",
            "rmdUnreserved": "warn",
            "rmdClasses": "classes",
            "claims": True,
            "claimsDenyDrivers": ["dra.net", "other.example"],
            "events": False,
        },
    },
    "controller": {
        "enabled": True,
        "args": {
            "controllers": ["tenants", "rmd"],
            "maxConcurrentReconciles": 32,
            "resyncSeconds": 90.5,
            "tenantQuota": {"secrets": 20000000, "count/daemonsets.apps": "2k", "configmaps": ""},
        },
    },
    "gateway": {
        "enabled": True,
        "args": {
            "drainSeconds": 9,
            "maxMessageBytes": 8388608,
            "streamsPerTenant": 9,
            "callsPerSecond": 0.5,
            "callsBurst": 1000000,
            "workloadsPerTenant": 2000000,
            "writesPerTenant": 8,
        },
    },
    "agent": {
        "enabled": True,
        "gateway": "[fd00::1]:30001",
        "args": {"gatewayName": "gw.example", "tenant": "one", "keepFinished": True, "resyncSeconds": 300},
    },
    "certificates": {"days": 30, "authorityDays": 90},
    "claims-node": {"enabled": True, "args": {"resyncSeconds": 300}},
    "rmd-node": {"args": {"kubeletFolder": "/var/snap/kubelet", "announceCacheWays": False, "resyncSeconds": 300}},
    "placement": {
        "hostLabel": "h/host",
        "tenantNodeLabel": "t/tenant",
        "adminNames": ["a", "b"],
        "tenantAllow": {"volumeType": ["nfs", "rbd"], "priorityClass": ["gold", "silver"], "csiDriver": ["x.example"]},
    },
    "logLevel": "debug",
}
"""Every flag of a role with another value than its default."""

CLAIMS = {
    "controller": {"enabled": True, "args": {"controllers": ["claims"]}},
    "claims-node": {"enabled": True, "args": {"resyncSeconds": 300}},
    "claims": {
        "drivers": ["sriovnetwork.k8snetworkplumbingwg.io", "vf.example.com"],
        "conflict": "force",
        "selfPublishing": [],
        "repairAfter": 90,
    },
}
COMBINATIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "infra": INFRA,
    "tenant": NOTHING | AGENT,
    "tenant with webhook": AGENT,
    "all": ALL,
    **{f"app wrappers as their authors, {mode}": values for mode, values in AUTHORS.items()},
    "claims injected": INJECTED_CLAIMS,
    "rmd": NOTHING | RMD,
    "rmd reviewed": REVIEWED,
    "rmd with daemons": {"webhook": {"args": {"rmdBackend": "daemon"}, "callerToken": CALLER_TOKEN}},
    "claims checked": CHECKED_CLAIMS,
    "args": ARGS,
    "claims": NOTHING | CLAIMS,
    "claims on nodes": NOTHING | {"claims-node": {"enabled": True}},
    "controller alone": NOTHING | {"controller": {"enabled": True}},
    "gateway alone": NOTHING | {"gateway": {"enabled": True, "service": {"type": "NodePort", "nodePort": 30001}}},
    "page alone": NOTHING | PAGE,
    "page behind a front proxy": NOTHING
    | {
        "ui": {
            "enabled": True,
            "replicas": 2,
            "certificate": {"secretName": "page"},
            "frontProxy": {"configMap": "proxies", "key": "proxies.crt", "names": ["proxy", "other"]},
            "service": {"type": "LoadBalancer", "port": 8443},
        }
    },
    "page by cert-manager": NOTHING | PAGE | {"certificates": {"mode": "cert-manager"}},
    "cert-manager": {"certificates": {"mode": "cert-manager"}},
    "cert-manager with an issuer": {
        "certificates": {
            "mode": "cert-manager",
            "certManager": {"issuerRef": {"name": "company", "kind": "ClusterIssuer"}},
        },
        "gateway": {"enabled": True, "certificate": {"secretName": "gateway"}},
    },
    "provided": {
        "certificates": {"mode": "provided", "provided": {"secretName": "mine", "caBundle": CERTIFICATE}},
        "gateway": {"enabled": True, "certificate": {"secretName": "gateway"}},
    },
    "switches": {
        "webhook": {
            "args": {"clientCA": {"configMap": "api-ca"}, "injectHugepageDownApi": True, "events": False},
            "injectionLabels": ["company.example/rdma"],
            "exemptNamespaces": ["monitoring"],
            "controlSwitches": {
                "create": True,
                "features": {"enableHugePageDownApi": True},
                "userDefinedInjections": {
                    "sriov": {
                        "op": "add",
                        "path": "/metadata/annotations",
                        "value": {"k8s.v1.cni.cncf.io/networks": "sriov-net"},
                    }
                },
            },
            "podLabels": {"team": "net"},
            "podAnnotations": {"a": "b"},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"operator": "Exists"}],
            "extraEnv": [{"name": "BERTH_CERTIFICATE_POLL_SECONDS", "value": "5"}],
            "extraArgs": ["--tls-min-version=VersionTLS13"],
        },
        "tracing": {"endpoint": "http://collector.observability:4318"},
        "image": {"digest": "sha256:" + "0" * 64},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "as little as can be": {
        "webhook": {"matchConditions": {"enabled": False}, "replicas": 1},
        "priorityClass": {"create": False},
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "preDeleteHook": {"enabled": False},
        "preStopSeconds": 0,
    },
    "nothing installed for all": ALL | {"crds": {"install": False}, "systemNamespace": {"create": False}},
}
