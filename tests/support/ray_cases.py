"""Objects of Ray's kinds, of which KubeRay's own code has said whether it refuses them: see `tests/peers`."""

from __future__ import annotations

from typing import Any

from app.wire import JSON
from tests.support.kueue_cases import CONTAINER, cluster_spec, ray_cluster, ray_job, template

SELECTED = {"clusterSelector": {"ray.io/cluster": "c"}}
V2 = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
SCALED = {"enableInTreeAutoscaling": True}
REDIS = {"gcsFaultToleranceOptions": {"redisAddress": "r:6379"}}
FT = {"ray.io/ft-enabled": "true"}
SHUT = {"shutdownAfterJobFinishes": True}


def head(*names: str, value: str = "x", **spec: Any) -> JSON:
    """A template whose container has these variables."""
    return template(containers=[CONTAINER | {"env": [{"name": name, "value": value} for name in names]}], **spec)


def named(obj: JSON, name: str) -> JSON:
    return obj | {"metadata": {**obj["metadata"], "name": name}}


def with_head(obj: JSON, **fields: Any) -> JSON:
    group = obj["spec"]["headGroupSpec"]
    return obj | {"spec": obj["spec"] | {"headGroupSpec": {**group, **fields}}}


def group(**fields: Any) -> JSON:
    return ray_cluster({"replicas": 1, **fields})


def sent(**spec: Any) -> JSON:
    return ray_job(None, **{**SELECTED, **spec})


def made(**spec: Any) -> JSON:
    return ray_job(cluster_spec({"replicas": 1}), **spec)


def deleted(*rules: tuple[str, str, int], cluster: JSON | None = None, **spec: Any) -> JSON:
    """A RayJob with rules: status, policy and seconds."""
    wanted = [{"policy": policy, "condition": {"jobStatus": one, "ttlSeconds": ttl}} for one, policy, ttl in rules]
    return ray_job(cluster or cluster_spec(), deletionStrategy={"deletionRules": wanted}, **spec)


def ended(success: str | None, failure: str | None, **spec: Any) -> JSON:
    policies = {"onSuccess": success, "onFailure": failure}
    strategy = {field: {"policy": policy} for field, policy in policies.items() if policy is not None}
    return made(deletionStrategy=strategy, **spec)


def other(kind: str, spec: JSON, name: str = "s", **metadata: Any) -> JSON:
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def service(name: str = "s", cluster: JSON | None = None, **spec: Any) -> JSON:
    return other("RayService", {"rayClusterConfig": cluster or cluster_spec(), **spec}, name)


def cron_job(schedule: str = "@daily", **job: Any) -> JSON:
    return other("RayCronJob", {"schedule": schedule, "jobTemplate": made(**job)["spec"]})


def auth(version: str | None = None, **options: Any) -> JSON:
    more = {} if version is None else {"rayVersion": version}
    return ray_cluster(authOptions={"mode": "token", **options}, **more)


RAY: dict[str, JSON] = {
    "cluster": ray_cluster({"replicas": 1}),
    "job": made(),
    "job with a selector": sent(),
    "service": service(),
    "cron job": cron_job(),
    # Names.
    "a digit first": named(ray_cluster(), "1a"),
    "a dot": named(ray_cluster(), "a.b"),
    "upper case": named(made(), "A"),
    "53 characters": named(ray_cluster(), "c" * 53),
    "54 characters": named(ray_cluster(), "c" * 54),
    "a job of 47 characters": named(made(), "c" * 47),
    "a job of 48 characters": named(made(), "c" * 48),
    "a job with a dot": named(made(), "a.b"),
    "a service of 47 characters": service("c" * 47),
    "a service of 48 characters": service("c" * 48),
    # Groups.
    "negative minReplicas": group(minReplicas=-1),
    "negative maxReplicas": group(minReplicas=-2, maxReplicas=-1),
    "more at least than at most": group(minReplicas=3, maxReplicas=2),
    "as many at least as at most": group(minReplicas=2, maxReplicas=2),
    "resources twice": group(rayStartParams={"num-cpus": "1"}, resources={"cpu": "1"}),
    "resources once": group(resources={"cpu": "1"}),
    "labels among parameters": group(rayStartParams={"labels": "a=b"}),
    "labels": group(labels={"a": "b"}),
    "a bad label": group(labels={"a b": "c"}),
    "a bad value of a label": group(labels={"a": "b c"}),
    "head: resources twice": with_head(ray_cluster(), rayStartParams={"memory": "1"}, resources={"memory": "1"}),
    "head: labels among parameters": with_head(ray_cluster(), rayStartParams={"labels": "a=b"}),
    "head: a bad label": with_head(ray_cluster(), labels={"a b": "c"}),
    "a suspended group": group(suspend=True),
    "a suspended group with autoscaler": ray_cluster({"replicas": 1, "suspend": True}, **SCALED),
    "a group with autoscaler": ray_cluster({"replicas": 1, "suspend": False}, **SCALED),
    "idle time without autoscaler v2": group(idleTimeoutSeconds=5),
    "idle time with autoscaler v1": ray_cluster({"idleTimeoutSeconds": 5}, **SCALED),
    "idle time with autoscaler v2": ray_cluster({"idleTimeoutSeconds": 5}, **V2),
    "negative idle time": ray_cluster({"idleTimeoutSeconds": -5}, **V2),
    # Autoscaler.
    "v2": ray_cluster({"replicas": 1}, **V2),
    "v2 by a variable": ray_cluster(head=head("RAY_enable_autoscaler_v2", value="1"), **SCALED),
    "v2 by a variable without autoscaler": ray_cluster(head=head("RAY_enable_autoscaler_v2", value="true")),
    "v2 off by a variable": ray_cluster(head=head("RAY_enable_autoscaler_v2", value="0")),
    "v2 twice": ray_cluster(head=head("RAY_enable_autoscaler_v2"), **V2),
    "v2 and a restart of the head": ray_cluster(head=template(restartPolicy="Always"), **V2),
    "v2 and a restart of workers": ray_cluster({"template": template(restartPolicy="OnFailure")}, **V2),
    "v1 and a restart": ray_cluster(head=template(restartPolicy="Always"), **SCALED),
    "negative idle time of all": ray_cluster(**SCALED, autoscalerOptions={"idleTimeoutSeconds": -1}),
    # Fault tolerance.
    "options": ray_cluster(**REDIS),
    "options and annotation": ray_cluster(annotations=FT, **REDIS),
    "options and annotation that is false": ray_cluster(annotations={"ray.io/ft-enabled": "false"}, **REDIS),
    "annotation": ray_cluster(annotations=FT),
    "an address alone": ray_cluster(head=head("RAY_REDIS_ADDRESS")),
    "an address and the annotation": ray_cluster(head=head("RAY_REDIS_ADDRESS"), annotations=FT),
    "an address and options": ray_cluster(head=head("RAY_REDIS_ADDRESS"), **REDIS),
    "a password and options": ray_cluster(head=head("REDIS_PASSWORD"), **REDIS),
    "a password and the annotation": ray_cluster(head=head("REDIS_PASSWORD"), annotations=FT),
    "a password among parameters": with_head(ray_cluster(**REDIS), rayStartParams={"redis-password": "x"}),
    "a user": ray_cluster(head=head("REDIS_USERNAME")),
    "a user among parameters": with_head(ray_cluster(), rayStartParams={"redis-username": "x"}),
    "a namespace and options": ray_cluster(annotations={"ray.io/external-storage-namespace": "n"}, **REDIS),
    "a namespace": ray_cluster(annotations={"ray.io/external-storage-namespace": "n"}),
    # Tokens and upgrades.
    "a token without a version": auth(),
    "a token with an old version": auth("2.51.9"),
    "a token": auth("2.52.0"),
    "a token with a short version": auth("2.53"),
    "a token with the least version, short": auth("2.52"),
    "a token with a release candidate": auth("2.52.0rc1"),
    "a token with a text as version": auth("nightly"),
    "tokens of Kubernetes with a short version": auth("2.55", enableK8sTokenAuth=True),
    "tokens of Kubernetes": auth("2.55.0", enableK8sTokenAuth=True),
    "tokens of Kubernetes with an old version": auth("2.52.0", enableK8sTokenAuth=True),
    "tokens of Kubernetes with a Secret": auth("2.55.0", enableK8sTokenAuth=True, secretName="s"),
    "tokens of Kubernetes without a mode": ray_cluster(authOptions={"enableK8sTokenAuth": True}),
    "tokens of Kubernetes in a job": ray_job(
        cluster_spec(rayVersion="2.55.0", authOptions={"mode": "token", "enableK8sTokenAuth": True})
    ),
    "an upgrade": ray_cluster(upgradeStrategy={"type": "Recreate"}),
    "another upgrade": ray_cluster(upgradeStrategy={"type": "NewCluster"}),
    # Jobs.
    "suspended": made(suspend=True),
    "suspended and shut down": made(suspend=True, **SHUT),
    "seconds to live": made(ttlSecondsAfterFinished=5),
    "seconds to live and shut down": made(ttlSecondsAfterFinished=5, **SHUT),
    "negative seconds to live": made(ttlSecondsAfterFinished=-1, **SHUT),
    "neither cluster nor selector": ray_job(None),
    "both": ray_job(cluster_spec(), **SELECTED),
    "a selector without the name": sent(clusterSelector={"a": "b"}),
    "a selector with an empty name": sent(clusterSelector={"ray.io/cluster": ""}),
    "an empty selector": sent(clusterSelector={}),
    "a selector in SidecarMode": sent(submissionMode="SidecarMode", rayClusterSpec=cluster_spec()),
    "a selector in HTTPMode": sent(submissionMode="HTTPMode"),
    "a selector with retries": sent(backoffLimit=1),
    "a selector without retries": sent(backoffLimit=0),
    "a selector and suspended": sent(suspend=True, **SHUT),
    "retries": made(backoffLimit=2),
    "negative retries": made(backoffLimit=-1),
    "retries in InteractiveMode": made(backoffLimit=1, submissionMode="InteractiveMode"),
    "InteractiveMode": made(submissionMode="InteractiveMode"),
    "SidecarMode": made(submissionMode="SidecarMode"),
    "SidecarMode with a template": made(submissionMode="SidecarMode", submitterPodTemplate=template()),
    "SidecarMode with options": made(submissionMode="SidecarMode", submitterConfig={"backoffLimit": 1}),
    "SidecarMode with restarts": ray_job(
        cluster_spec(head=template(restartPolicy="Always")), submissionMode="SidecarMode"
    ),
    "no time": made(activeDeadlineSeconds=0),
    "negative time": made(activeDeadlineSeconds=-1),
    "time": made(activeDeadlineSeconds=1),
    "no time to run": made(preRunningDeadlineSeconds=0),
    "a cluster that is wrong": ray_job(cluster_spec({"minReplicas": -1})),
    # Deletion.
    "two policies": ended("DeleteCluster", "DeleteNone"),
    "one policy": ended("DeleteCluster", None),
    "DeleteNone and shut down": ended("DeleteCluster", "DeleteNone", **SHUT),
    "DeleteSelf and shut down": ended("DeleteSelf", "DeleteSelf", **SHUT),
    "a policy for a selected cluster": sent(
        deletionStrategy={"onSuccess": {"policy": "DeleteCluster"}, "onFailure": {"policy": "DeleteSelf"}}
    ),
    "a policy for workers that are scaled": ray_job(
        cluster_spec(**SCALED),
        deletionStrategy={"onSuccess": {"policy": "DeleteWorkers"}, "onFailure": {"policy": "DeleteSelf"}},
    ),
    "rules": deleted(("SUCCEEDED", "DeleteCluster", 5), ("SUCCEEDED", "DeleteSelf", 9), ("FAILED", "DeleteSelf", 0)),
    "rules and shut down": deleted(("SUCCEEDED", "DeleteSelf", 5), **SHUT),
    "rules out of order": deleted(("SUCCEEDED", "DeleteCluster", 9), ("SUCCEEDED", "DeleteSelf", 5)),
    "a rule twice": deleted(("SUCCEEDED", "DeleteSelf", 5), ("SUCCEEDED", "DeleteSelf", 6)),
    "a rule with negative seconds": deleted(("SUCCEEDED", "DeleteSelf", -5)),
    "a rule for workers that are scaled": deleted(("SUCCEEDED", "DeleteWorkers", 5), cluster=cluster_spec(**SCALED)),
    "a rule without a status": made(deletionStrategy={"deletionRules": [{"policy": "DeleteSelf", "condition": {}}]}),
    "a rule with two statuses": made(
        deletionStrategy={
            "deletionRules": [
                {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}}
            ]
        }
    ),
    # Services and cron jobs.
    "a service whose head is named": service(
        cluster={
            **cluster_spec(),
            "headGroupSpec": {"template": template(), "headService": {"metadata": {"name": "a"}}},
        }
    ),
    "a service with a new cluster": service(upgradeStrategy={"type": "NewCluster"}),
    "a service that is recreated": service(upgradeStrategy={"type": "Recreate"}),
    "a service with a negative delay": service(rayClusterDeletionDelaySeconds=-1),
    "a service with a wrong cluster": service(cluster=cluster_spec({"minReplicas": -1})),
    "a schedule": cron_job("*/5 * * * *"),
    "a schedule with a zone": cron_job("CRON_TZ=Asia/Tokyo 0 6 * * *"),
    "a schedule with a zone, the old form": cron_job("TZ=UTC 0 6 * * *"),
    "a schedule of a duration": cron_job("@every 1h30m"),
    "a schedule of a wrong duration": cron_job("@every " + "00s" * 300 + "x"),
    "a schedule with six parts": cron_job("0 0 * * * *"),
    "a cron job whose job is wrong": cron_job(ttlSecondsAfterFinished=5),
}
