"""What both tenants of the fairness measurement ask of the gateway: files, channels, rules, workload events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from app.certs.issuing import issue_authority, issue_client, issue_serving, serving_names
from app.tenancy.messages import update_of_spec
from app.tenancy.model import GATEWAY_NAME, tenant_certificate_name
from app.tenancy.proto.universe.workload.v1 import workload_pb2, workload_rule_pb2
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2_grpc as rule_grpc
from app.wire import JSON
from bench import companions_objects as objects

_DAYS = 2


@dataclass(frozen=True, slots=True)
class Pki:
    """One authority, and a directory with the gateway's files and each tenant's."""

    directory: Path

    @classmethod
    def make(cls, directory: Path, tenants: tuple[str, ...]) -> Pki:
        now, made = datetime.now(UTC), cls(directory)
        directory.mkdir(parents=True)
        authority = issue_authority(common_name="bench", now=now, days=_DAYS)
        names = serving_names(dns=[GATEWAY_NAME, "localhost"], addresses=["127.0.0.1"])
        serving = issue_serving(authority, names=names, now=now, days=_DAYS)
        made._write("ca.crt", authority.certificate_pem)
        made._write("tls.crt", serving.certificate_pem)
        made._write("tls.key", serving.key_pem)
        for tenant in tenants:
            issued = issue_client(authority, common_name=tenant_certificate_name(tenant), now=now, days=_DAYS)
            made._write(f"{tenant}.crt", issued.certificate_pem)
            made._write(f"{tenant}.key", issued.key_pem)
        return made

    def channel(self, port: int, tenant: str) -> grpc.aio.Channel:
        """A connection of its own."""
        credentials = grpc.ssl_channel_credentials(
            root_certificates=self._read("ca.crt"),
            private_key=self._read(f"{tenant}.key"),
            certificate_chain=self._read(f"{tenant}.crt"),
        )
        options = [
            ("grpc.ssl_target_name_override", GATEWAY_NAME),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
        ]
        return grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options)

    def _write(self, name: str, content: bytes) -> None:
        (self.directory / name).write_bytes(content)

    def _read(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()


class Calls:
    """The calls of one tenant on one connection."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._rules: Any = rule_grpc.WorkloadRuleServiceStub(channel)

    async def list_rules(self) -> None:
        await self._rules.List(workload_rule_pb2.ListWorkloadRulesRequest(), timeout=60)

    async def update_rule(self, name: str, version: int) -> None:
        """Create the rule, or write another template into it."""
        rule = workload_rule_pb2.WorkloadRule(id=name, data=_data(version))
        await self._rules.Update(workload_rule_pb2.UpdateWorkloadRuleRequest(rule=rule), timeout=60)


def event(number: int, version: int) -> workload_pb2.WorkloadStreamRequest:
    """Workload `number` with a label of that value."""
    spec: JSON = objects.workload(number, rules=2)["spec"]
    spec["state"]["extra"]["labels"][objects.VERSION_LABEL] = str(version)
    return update_of_spec(spec)


def _data(version: int) -> workload_rule_pb2.WorkloadRuleData:
    container = {"name": "agent", "image": f"example.com/agent:{version}"}
    template = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
    everything = workload_rule_pb2.MatchExpression(
        key="metadata.resourceNamespace", operation=workload_rule_pb2.MATCH_OPERATION_IN, values=["default"]
    )
    term = workload_rule_pb2.WorkloadTerm(match_expressions=[everything])
    return workload_rule_pb2.WorkloadRuleData(
        orchestrator_type=workload_pb2.ORCHESTRATOR_TYPE_KUBERNETES,
        resource_type=objects.rule(0, rules=2)["spec"]["resourceType"],
        workload_terms=[term],
        rule_template=json.dumps(template).encode(),
    )
