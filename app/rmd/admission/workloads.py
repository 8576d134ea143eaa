"""Checks RmdWorkloads and the RmdConfig: what no daemon will take, and what may keep one from taking it."""

from __future__ import annotations

from app.admission.chain import Plan, refuse
from app.admission.naming import home_of
from app.admission.reading import readable
from app.admission.review import Request, old_object, written_object
from app.kube.store import Store
from app.rmd.admission.hosts import Hosts
from app.rmd.admission.overlaps import Held, neighbors, overlaps
from app.rmd.admission.specs import config_problems, managed, missing_cores, unknown_nodes, workload_problems
from app.rmd.model import GROUP, RMD_CONFIGS, RMD_WORKLOADS
from app.rmd.requests import read_spec
from app.wire import JSON, encode_sorted

_SERVICE_ACCOUNT = "system:serviceaccount:"


class RmdObjectCheck:
    """Neutral to everything but RmdWorkloads and RmdConfigs, and to updates that leave the spec as it was."""

    def __init__(self, hosts: Hosts, held: Store[Held]) -> None:
        self._hosts, self._held = hosts, held

    def check(self, request: Request, plan: Plan) -> None:
        """Raises Denied with every problem."""
        kinds = (RMD_WORKLOADS.kind, RMD_CONFIGS.kind)
        if request.kind.group != GROUP or request.kind.kind not in kinds:
            return
        reason = f"Invalid{request.kind.kind}"
        obj, old = written_object(request, reason=reason), old_object(request, reason=reason)
        if obj is None:
            return
        spec: JSON = obj.get("spec") or {}
        if old is not None and readable(lambda: _same(spec, old.get("spec") or {}), reason=reason):
            return
        if request.kind.kind == RMD_CONFIGS.kind:
            refuse(readable(lambda: list(config_problems(spec)), reason=reason), reason=reason)
        else:
            problems, warnings = readable(lambda: self._workload(request, obj, spec), reason=reason)
            plan.warnings += warnings
            refuse(problems, reason=reason)

    def _workload(self, request: Request, obj: JSON, spec: JSON) -> tuple[list[str], list[str]]:
        read = read_spec(spec)
        problems = [*read.problems, *workload_problems(read.request)]
        warnings = [*read.warnings]
        # The node agent is one.
        if not request.user_info.username.startswith(_SERVICE_ACCOUNT):
            warnings += managed(obj)
        if not problems:
            key = request.namespace, request.name or str(obj["metadata"].get("name") or "")
            warnings += unknown_nodes(read.request, self._hosts)
            warnings += missing_cores(read.request, self._hosts)
            others = neighbors(read.request, self._held, self._hosts)
            warnings += overlaps(Held(key, read.request), others, self._hosts, home=home_of(request))
        return problems, warnings


def _same(spec: JSON, old: JSON) -> bool:
    return encode_sorted(spec) == encode_sorted(old)
