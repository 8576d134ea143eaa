"""The descriptor of the role that serves the page in a cluster, and what it reads beside the kinds of wings."""

from __future__ import annotations

from app.wiring import READ, TLS_FILES, Argument, Chart, Permission, Port, Role

UI = Role(
    name="ui",
    settings="app.ui.settings:UiSettings",
    build="app.ui.role:build",
    summary="Show in a browser what Berth does, what is wrong, and why an object is as it is.",
    examples=(
        "berth ui --access callers --tls-cert-file tls.crt --tls-private-key-file tls.key",
        "berth ui --port 8080",
        "berth ui --kubeconfig infra.kubeconfig --kubeconfig tenant1.kubeconfig",
        "berth ui --context infra --context tenant1",
    ),
    chart=Chart(
        ports=(Port("https", 8443, 443),),
        arguments=(
            Argument("access", text="callers"),
            Argument("port", text="8443"),
            *TLS_FILES,
            Argument("front_proxy_ca", "berth.frontProxyFile"),
            Argument("front_proxy_names", "ui.frontProxy.names"),
            Argument("release", "berth.release"),
        ),
        tls="berth.uiSecret",
        volumes={"front-proxy": "berth.frontProxyVolume"},
        grace=(2,),
        next=(
            (
                "kubectl -n {{ .Release.Namespace }} port-forward "
                'service/{{ include "berth.fullname" . }}-ui 8443:{{ .Values.ui.service.port }}'
                "   # then https://localhost:8443/ with a token of: kubectl create token"
            ),
        ),
    ),
    when_down="the page does not answer; berth status, doctor and why do",
    when_refused={
        "tokenreviews": "no caller of the page is known: all are refused",
        "subjectaccessreviews": "the page shows no caller anything",
        "": "views of the page lack what it may not read, and say so",
    },
)

PERMISSIONS = (
    Permission(
        "cluster",
        "",
        ("pods", "nodes", "namespaces", "resourcequotas", "serviceaccounts", "endpoints"),
        READ,
    ),
    Permission("cluster", "apps", ("deployments", "daemonsets", "replicasets", "statefulsets"), READ),
    Permission("cluster", "batch", ("jobs", "cronjobs"), READ),
    Permission("cluster", "scheduling.k8s.io", ("priorityclasses", "podgroups", "workloads"), READ),
    Permission(
        "cluster",
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        READ,
    ),
    Permission("cluster", "apiextensions.k8s.io", ("customresourcedefinitions",), READ),
    Permission(
        "cluster",
        "rbac.authorization.k8s.io",
        ("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
        READ,
    ),
    # Too many and too busy to be watched.
    Permission("cluster", "", ("events",), ("get", "list")),
    Permission("cluster", "coordination.k8s.io", ("leases",), ("get", "list")),
    Permission("cluster", "authentication.k8s.io", ("tokenreviews",), ("create",)),
    Permission("cluster", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    # The metrics of webhook Pods, for callers who may read them so as well.
    Permission("release", "", ("pods/proxy",), ("get",)),
)
"""Of what views, checks and judges of every cluster read. What they read of a wing, its permissions say."""
