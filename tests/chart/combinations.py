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
ALL: dict[str, Any] = INFRA | AGENT

COMBINATIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "infra": INFRA,
    "tenant": NOTHING | AGENT,
    "tenant with webhook": AGENT,
    "all": ALL,
    "controller alone": NOTHING | {"controller": {"enabled": True}},
    "gateway alone": NOTHING | {"gateway": {"enabled": True, "service": {"type": "NodePort", "nodePort": 30001}}},
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
