"""Rules of definitions with the IP and CIDR functions: an API server computes what the sandbox computes."""

from __future__ import annotations

from typing import Any

from tests.support.cel_addresses import EXPRESSIONS


def test_rules_about_addresses(served: Any, namespace: str) -> None:
    rules = [{"rule": f"({one}) == {str(value).lower()}", "message": one} for one, value in EXPRESSIONS]
    rules.append(
        {"rule": "self.a == '' || cidr('10.0.0.0/8').containsIP(ip(self.a))", "message": "want it in 10.0.0.0/8"}
    )
    properties = {"a": {"type": "string", "maxLength": 45}}
    spec = {"type": "object", "required": ["a"], "properties": properties, "x-kubernetes-validations": rules}
    schema = {"type": "object", "properties": {"spec": spec}}
    served.define(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "spots.addresses.example"},
            "spec": {
                "group": "addresses.example",
                "scope": "Namespaced",
                "names": {"kind": "Spot", "plural": "spots"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            },
        }
    )
    path = f"/apis/addresses.example/v1/namespaces/{namespace}/spots"

    def create(name: str, address: str) -> Any:
        body = {"apiVersion": "addresses.example/v1", "kind": "Spot", "metadata": {"name": name}}
        return served.request("POST", path, body | {"spec": {"a": address}})

    for name, address in (("a", ""), ("b", "10.9.9.9")):
        made = create(name, address)
        assert made.status == 201, made.body["message"]
    assert "want it in 10.0.0.0/8" in create("c", "11.0.0.1").body["message"]
    assert "parse error during conversion from string" in create("d", "x").body["message"]
