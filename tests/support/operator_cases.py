"""Objects of JobSet's and Kubeflow's kinds, of which their own operators have said whether they refuse them.

`tests/integration/operators` asks them: an API server with their definitions and webhooks.
"""

from __future__ import annotations

from typing import Any

from app.wire import JSON
from tests.support.kueue_cases import job_set, py_torch_job
from tests.support.ray_cases import named

KUBEFLOW = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
    "JAXJob": ("jaxReplicaSpecs", "jax"),
}
MANY = 2**20


def role(container: str, replicas: int | None = 1, **fields: Any) -> JSON:
    """A role with one container of this name."""
    spec = {"containers": [{"name": container, "image": "i", **fields}]}
    return {"template": {"spec": spec}} | ({} if replicas is None else {"replicas": replicas})


def kubeflow(kind: str, name: str = "k", **roles: Any) -> JSON:
    """A job whose roles are these; a number is one with so many Pods of the right container."""
    field, container = KUBEFLOW[kind]
    specs = {
        key: role(container, value) if value is None or isinstance(value, int) else value
        for key, value in roles.items()
    }
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": {field: specs}}


def with_spec(obj: JSON, **fields: Any) -> JSON:
    return obj | {"spec": obj["spec"] | fields}


def torch(**fields: Any) -> JSON:
    return with_spec(kubeflow("PyTorchJob", Master=1, Worker=2), **fields)


def entry(**fields: Any) -> JSON:
    """An entry of a JobSet; `spec` has fields of its Jobs."""
    spec = fields.pop("spec", {})
    pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"replicas": 1, "template": {"spec": {"template": pods} | spec}, **fields}


def jobs(*entries: JSON, **spec: Any) -> JSON:
    """A JobSet; its entries are called r0, r1 and so on."""
    return with_spec(job_set(*(entries or (entry(),))), **spec)


def after(*names: str, status: str = "Ready") -> JSON:
    return entry(dependsOn=[{"name": name, "status": status} for name in names])


def rules(*entries: JSON, **policy: Any) -> JSON:
    return jobs(failurePolicy={"rules": [{"action": "FailJobSet", "name": "a", **rule} for rule in entries], **policy})


def coordinator(completions: int | None = 2, mode: str | None = None, **fields: Any) -> JSON:
    spec = {"parallelism": 2} | ({"completions": completions} if completions else {})
    spec |= {"completionMode": mode} if mode else {}
    return jobs(entry(replicas=2, spec=spec), coordinator={"replicatedJob": "r0", **fields})


def generated(obj: JSON, prefix: str) -> JSON:
    return obj | {"metadata": {"generateName": prefix}}


def null_role(kind: str, **roles: int) -> JSON:
    """A job with a role more, of which nothing is said."""
    obj, (field, _) = kubeflow(kind, **roles), KUBEFLOW[kind]
    return with_spec(obj, **{field: obj["spec"][field] | {"Worker": None}})


ANNOTATED: JSON = {
    "metadata": {"annotations": {f"a{number}": "x" for number in range(4_200)}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
}
CASES: dict[str, JSON] = {
    **{kind: kubeflow(kind, Worker=2) for kind in KUBEFLOW if kind != "XGBoostJob"},
    "XGBoostJob": kubeflow("XGBoostJob", Master=1, Worker=2),
    "PyTorchJob: Master and Worker": torch(),
    "PyTorchJob: Master alone": kubeflow("PyTorchJob", Master=1),
    "PyTorchJob: two Masters": kubeflow("PyTorchJob", Master=2),
    "PyTorchJob: no Master": kubeflow("PyTorchJob", Master=0, Worker=1),
    "PyTorchJob: a Master without a number": kubeflow("PyTorchJob", Master=None),
    "PyTorchJob: no Pod of a Worker": kubeflow("PyTorchJob", Master=1, Worker=0),
    "PyTorchJob: a Worker without a number": kubeflow("PyTorchJob", Worker=None),
    "PyTorchJob: another role": kubeflow("PyTorchJob", Master=1, Chief=1),
    "PyTorchJob: a role in lower case": kubeflow("PyTorchJob", Master=1, worker=1),
    "PyTorchJob: another container": kubeflow("PyTorchJob", Master=role("main")),
    "PyTorchJob: the container of another kind": kubeflow("PyTorchJob", Master=role("tensorflow")),
    "PyTorchJob: no image": kubeflow("PyTorchJob", Master=role("pytorch", image="")),
    "PyTorchJob: a sidecar": kubeflow(
        "PyTorchJob",
        Master={
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "pytorch", "image": "i"}]}},
        },
    ),
    "PyTorchJob: a sidecar without an image": kubeflow(
        "PyTorchJob",
        Master={
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "a"}, {"name": "pytorch", "image": "i"}]}},
        },
    ),
    "PyTorchJob: no container": kubeflow(
        "PyTorchJob", Master={"replicas": 1, "template": {"spec": {"containers": []}}}
    ),
    "PyTorchJob: no roles": py_torch_job({}),
    "PyTorchJob: a name with a digit first": kubeflow("PyTorchJob", "1k", Master=1),
    "PyTorchJob: a name with a dot": kubeflow("PyTorchJob", "a.b", Master=1),
    "PyTorchJob: a name of 63 characters": kubeflow("PyTorchJob", "k" * 63, Master=1),
    "PyTorchJob: a name of 64 characters": kubeflow("PyTorchJob", "k" * 64, Master=1),
    "PyTorchJob: elastic": with_spec(kubeflow("PyTorchJob", Worker=2), elasticPolicy={"minReplicas": 1}),
    "PyTorchJob: elastic without Workers": with_spec(
        kubeflow("PyTorchJob", Master=1), elasticPolicy={"minReplicas": 1}
    ),
    "PyTorchJob: processes": torch(nprocPerNode="2"),
    "PyTorchJob: processes of an elastic one": torch(elasticPolicy={"nProcPerNode": 2}),
    "PyTorchJob: processes twice": torch(nprocPerNode="2", elasticPolicy={"nProcPerNode": 2}),
    "PyTorchJob: by the operator": torch(runPolicy={"managedBy": "kubeflow.org/training-operator"}),
    "PyTorchJob: by MultiKueue": torch(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}),
    "PyTorchJob: by another": torch(runPolicy={"managedBy": "example.com/mine"}),
    "PyTorchJob: a role of nothing": kubeflow("PyTorchJob", Master=1, Worker={}),
    "PyTorchJob: a role that is null": null_role("PyTorchJob", Master=1),
    "PyTorchJob: elastic without roles": with_spec(py_torch_job({}), elasticPolicy={"minReplicas": 1}),
    "PyTorchJob: a generated name": generated(kubeflow("PyTorchJob", Master=1), "k-"),
    "PyTorchJob: a generated name with a digit first": generated(kubeflow("PyTorchJob", Master=1), "1k-"),
    "TFJob: a role that is null": null_role("TFJob", Chief=1),
    "TFJob: a role without containers": kubeflow("TFJob", Worker={"template": {"spec": {"containers": []}}}),
    "TFJob: a role without a spec": kubeflow("TFJob", Worker={"template": {}}),
    "XGBoostJob: no roles": kubeflow("XGBoostJob"),
    "XGBoostJob: a role in lower case": kubeflow("XGBoostJob", Master=1, worker=1),
    "JAXJob: a role in lower case": kubeflow("JAXJob", worker=1),
    "JAXJob: by another": with_spec(kubeflow("JAXJob", Worker=1), runPolicy={"managedBy": "example.com/mine"}),
    "TFJob: any role": kubeflow("TFJob", Anything=1),
    "TFJob: Chief and Worker": kubeflow("TFJob", Chief=1, Worker=1),
    "TFJob: two Chiefs": kubeflow("TFJob", Chief=2),
    "TFJob: Chief and Master": kubeflow("TFJob", Chief=1, Master=1),
    "TFJob: another container": kubeflow("TFJob", Worker=role("pytorch")),
    "TFJob: a name with a dot": kubeflow("TFJob", "a.b", Worker=1),
    "XGBoostJob: no Master": kubeflow("XGBoostJob", Worker=1),
    "XGBoostJob: two Masters": kubeflow("XGBoostJob", Master=2),
    "XGBoostJob: a Master without a number": kubeflow("XGBoostJob", Master=None),
    "XGBoostJob: no Pod of a Worker": kubeflow("XGBoostJob", Master=1, Worker=0),
    "XGBoostJob: another role": kubeflow("XGBoostJob", Master=1, PS=1),
    "PaddleJob: two Masters": kubeflow("PaddleJob", Master=2),
    "PaddleJob: another role": kubeflow("PaddleJob", PS=1),
    "PaddleJob: another container": kubeflow("PaddleJob", Worker=role("main")),
    "JAXJob: a Master": kubeflow("JAXJob", Master=1),
    "JAXJob: another container": kubeflow("JAXJob", Worker=role("main")),
    "JAXJob: a name with a dot": kubeflow("JAXJob", "a.b", Worker=1),
    "JobSet": jobs(),
    "JobSet: after the first": jobs(entry(), after("r0")),
    "JobSet: after the first is complete": jobs(entry(), after("r0", status="Complete")),
    "JobSet: the first after another": jobs(after("r1"), entry()),
    "JobSet: the first after nothing": jobs(after(), entry()),
    "JobSet: after a later one": jobs(entry(), after("r2"), entry()),
    "JobSet: after none that there is": jobs(entry(), after("x")),
    "JobSet: after six": jobs(*(entry() for _ in range(6)), after(*(f"r{number}" for number in range(6)))),
    "JobSet: after one, in order": jobs(entry(), after("r0"), startupPolicy={"startupPolicyOrder": "InOrder"}),
    "JobSet: after one, in any order": jobs(entry(), after("r0"), startupPolicy={"startupPolicyOrder": "AnyOrder"}),
    "JobSet: in order": jobs(entry(), entry(), startupPolicy={"startupPolicyOrder": "InOrder"}),
    "JobSet: a success policy": jobs(successPolicy={"operator": "Any", "targetReplicatedJobs": ["r0"]}),
    "JobSet: success of none that there is": jobs(successPolicy={"operator": "All", "targetReplicatedJobs": ["x"]}),
    "JobSet: a rule": rules({"targetReplicatedJobs": ["r0"], "onJobFailureReasons": ["BackoffLimitExceeded"]}),
    "JobSet: a rule for none that there is": rules({"targetReplicatedJobs": ["x"]}),
    "JobSet: a rule for another reason": rules({"onJobFailureReasons": ["Evicted"]}),
    "JobSet: a rule with an empty name": rules({"name": ""}),
    "JobSet: a rule with a name of 128 characters": rules({"name": "a" * 128}),
    "JobSet: a rule with a name of 129 characters": rules({"name": "a" * 129}),
    "JobSet: a rule with a digit first": rules({"name": "1a"}),
    "JobSet: a rule with a dash": rules({"name": "a-b"}),
    "JobSet: two rules": rules({}, {"name": "b"}),
    "JobSet: a rule twice": rules({}, {}),
    "JobSet: a rule with the name of one without": rules({"name": "failurePolicyRule1"}, {"name": ""}),
    "JobSet: the action RestartJobSet": rules({"action": "RestartJobSet"}),
    "JobSet: the action RestartJob": rules({"action": "RestartJob"}),
    "JobSet: restarts in place": jobs(
        entry(spec={"completions": 1, "parallelism": 1, "backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}),
        failurePolicy={"restartStrategy": "InPlaceRestart"},
    ),
    "JobSet: another strategy": jobs(failurePolicy={"restartStrategy": "Never"}),
    "JobSet: another action": rules({"action": "Restart"}),
    "JobSet: another operator": jobs(successPolicy={"operator": "Some"}),
    "JobSet: another order": jobs(startupPolicy={"startupPolicyOrder": "Reverse"}),
    "JobSet: after another status": jobs(entry(), after("r0", status="Running")),
    "JobSet: after one twice": jobs(entry(), after("r0", "r0")),
    "JobSet: less than no time to live": jobs(ttlSecondsAfterFinished=-1),
    "JobSet: no time to live": jobs(ttlSecondsAfterFinished=0),
    "JobSet: a group that is a number": jobs(entry(groupName=5)),
    "JobSet: a rule whose name is a number": rules({"name": 5}),
    "JobSet: a rule for any reason": rules(
        {
            "onJobFailureReasons": [
                *("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes"),
                *("MaxFailedIndexesExceeded", "PodFailurePolicy"),
            ]
        }
    ),
    "JobSet: a generated name": generated(jobs(), "a-"),
    "JobSet: a generated name with a digit first": generated(jobs(), "1a-"),
    "JobSet: a generated name that is long": generated(jobs(), "a" * 58),
    "JobSet: no Jobs of a long name": named(jobs(entry(replicas=0), entry()), "a" * 58),
    "JobSet: no Jobs": named(jobs(entry(replicas=0), entry()), "a" * 57),
    "JobSet: a coordinator with a long address": named(coordinator(), "a" * 28),
    "JobSet: a coordinator with the longest address": named(coordinator(), "a" * 27),
    "JobSet: a coordinator in a subdomain": named(coordinator(), "a" * 28)
    | {"spec": coordinator()["spec"] | {"network": {"subdomain": "s"}}},
    "JobSet: a coordinator without an entry": jobs(coordinator={}),
    "JobSet: a coordinator of an entry without Jobs": jobs(
        entry(replicas=0, spec={"completions": 1}), entry(), coordinator={"replicatedJob": "r0"}
    ),
    "JobSet: large, and after none that there is": jobs(entry(spec={"template": ANNOTATED}), after("x")),
    "JobSet: restarts that block": jobs(failurePolicy={"restartStrategy": "BlockingRecreate"}),
    "JobSet: a coordinator": coordinator(),
    "JobSet: a coordinator by index": coordinator(jobIndex=1, podIndex=1),
    "JobSet: a coordinator of none that there is": jobs(coordinator={"replicatedJob": "x"}),
    "JobSet: a coordinator in a Job too many": coordinator(jobIndex=2),
    "JobSet: a coordinator in a Pod too many": coordinator(podIndex=2),
    "JobSet: a coordinator before the first": coordinator(podIndex=-1),
    "JobSet: a coordinator without completions": coordinator(None),
    "JobSet: a coordinator that is not indexed": coordinator(mode="NonIndexed"),
    "JobSet: a group": jobs(entry(groupName="g")),
    "JobSet: a group with a digit first": jobs(entry(groupName="1g")),
    "JobSet: a group in upper case": jobs(entry(groupName="G")),
    "JobSet: an empty group": jobs(entry(groupName="")),
    "JobSet: a subdomain": jobs(network={"subdomain": "s"}),
    "JobSet: an empty subdomain": jobs(network={"subdomain": ""}),
    "JobSet: a subdomain with a dot": jobs(network={"subdomain": "a.b"}),
    "JobSet: a subdomain of 64 characters": jobs(network={"subdomain": "a" * 64}),
    "JobSet: by JobSet": jobs(managedBy="jobset.sigs.k8s.io/jobset-controller"),
    "JobSet: by nothing": jobs(managedBy=""),
    "JobSet: by one without a domain": jobs(managedBy="mine"),
    "JobSet: by one with a long name": jobs(managedBy="example.com/" + "a" * 52),
    "JobSet: by one with a path of its own": jobs(managedBy="example.com/a/b"),
    "JobSet: by one with a space": jobs(managedBy="example.com/a b"),
    "JobSet: too many Pods": jobs(entry(replicas=MANY, spec={"parallelism": MANY})),
}
