"""What the Pods of a tenant are held to: the policy of the cloud admin, and the tenant's own DPUs. Pure.

The webhook of the infra cluster confines Pods too. But a DaemonSet's controller decides from the template where Pods
belong, and those for other tenants' DPUs would be made only to stay pending.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.placement.model import PlacementOptions, Requirement
from app.placement.plan import contradictions, placed, requirements
from app.wire import JSON
from app.workloads.templates.problems import manifest_problems, template_problems


@dataclass(frozen=True, slots=True)
class Confinement:
    """`tenant` is the tenant's name, "" for the cloud admin, whose Pods may run anywhere."""

    tenant: str
    placement: PlacementOptions

    @property
    def _wanted(self) -> tuple[Requirement, ...]:
        return requirements(host=None, tenant=self.tenant, options=self.placement)

    def template_problems(self, template: JSON, path: str, *, trusted: bool) -> list[str]:
        """What is wrong with the template of a rule: its companions run on the tenant's DPUs alone."""
        wrong = template_problems(template, trusted=trusted, path=path, policy=self.placement.policy)
        return wrong or contradictions(template["spec"], self._wanted, f"{path}.spec")

    def manifest_problems(self, manifest: JSON, kind: str, path: str) -> list[str]:
        """What is wrong with a tenant's object: one that asks for what no node of the tenant has could never run."""
        wrong = manifest_problems(manifest, kind=kind, path=path, policy=self.placement.policy)
        if wrong or not self._wanted:
            return wrong
        if kind == "Pod":
            return contradictions(manifest["spec"], self._wanted, f"{path}.spec")
        if kind == "DaemonSet":
            spec = manifest["spec"]["template"]["spec"]
            return contradictions(spec, self._wanted, f"{path}.spec.template.spec")
        return []

    def confined(self, body: JSON) -> JSON:
        """An object without such problems, with the affinity of its tenant."""
        if not self._wanted or body["kind"] not in ("Pod", "DaemonSet"):
            return body
        spec = body["spec"]
        if body["kind"] == "Pod":
            return {**body, "spec": placed(spec, self._wanted)}
        template = {**spec["template"], "spec": placed(spec["template"]["spec"], self._wanted)}
        return {**body, "spec": {**spec, "template": template}}
