"""Objects of which Kueue's own code has said what it makes: `tests/peers` has that code, and writes its answers.

Each case is one row: a field that quota, topology, flavors, provisioning requests or equivalence read.
"""

from __future__ import annotations

from typing import Any

from app.appwrappers.kueue.templates import pod_sets
from app.appwrappers.sizes import component_status
from app.wire import JSON

KUEUE = "kueue.x-k8s.io/"
CONTAINER: JSON = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}
REQUIRED, PREFERRED = f"{KUEUE}podset-required-topology", f"{KUEUE}podset-preferred-topology"
UNCONSTRAINED, GROUP = f"{KUEUE}podset-unconstrained-topology", f"{KUEUE}podset-group-name"
SLICE, SIZE = f"{KUEUE}podset-slice-required-topology", f"{KUEUE}podset-slice-size"
LAYERS = f"{KUEUE}podset-slice-required-topology-constraints"
_LINUX = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [_LINUX]}]}


def template(annotations: JSON | None = None, **spec: Any) -> JSON:
    metadata = {"annotations": annotations} if annotations else {}
    return {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [CONTAINER], **spec}}


def resources(requests: JSON | None = None, limits: JSON | None = None, **more: Any) -> JSON:
    found = {field: value for field, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"resources": found | more}


def container(name: str = "c", **fields: Any) -> JSON:
    return {"name": name, "image": "i:1", **fields}


TEMPLATES: dict[str, JSON] = {
    "requests of containers": template(containers=[CONTAINER, container("d", **resources({"cpu": "1500m"}))]),
    "limits alone are requests": template(containers=[container(**resources(limits={"cpu": 2, "memory": "1Gi"}))]),
    "a limit beside a request": template(containers=[container(**resources({"cpu": "100m"}, {"cpu": 1}))]),
    "quantities below a thousandth": template(containers=[container(**resources({"cpu": "0.0001", "memory": "100"}))]),
    "extended resources and huge pages": template(
        containers=[container(**resources({"a.b/c": 2, "hugepages-2Mi": "4Mi", "cpu": 1}, {"a.b/c": 2, "hugepages-2Mi": "4Mi", "cpu": 1}))]
    ),
    "Pod-level requests and limits": template(
        containers=[container(), container("d")], **resources({"cpu": 8}, {"cpu": 8})
    ),
    "Pod-level requests beside those of containers": template(**resources({"cpu": "3", "memory": "1Gi"})),
    "Pod-level requests of one resource": template(
        containers=[container(**resources({"cpu": 1, "memory": "2Gi", "a.b/c": 1}, {"a.b/c": 1}))], **resources({"cpu": "1500m"})
    ),
    "Pod-level limits alone": template(**resources(limits={"cpu": "4"})),
    "Pod-level limits without anything else": template(containers=[container()], **resources(limits={"cpu": "4"})),
    "Pod-level requests and an init container": template(
        initContainers=[container("i", **resources({"cpu": "6"}))], **resources({"cpu": "8"})
    ),
    "an init container that needs more": template(initContainers=[container("i", **resources({"cpu": "3"}))]),
    "sidecars": template(
        initContainers=[
            container("s", restartPolicy="Always", **resources({"cpu": "200m"})),
            container("i", **resources({"cpu": "3"})),
        ]
    ),
    "names in the metadata": template() | {"metadata": {"name": "n", "namespace": "m", "labels": {"a": "b"}}},
    "overhead": template(overhead={"cpu": "100m"}),
    "the overhead of a RuntimeClass": template(runtimeClassName="kata"),
    "a RuntimeClass and an overhead": template(runtimeClassName="kata", overhead={"cpu": "1"}),
    "a RuntimeClass and Pod-level resources": template(runtimeClassName="kata", **resources({"cpu": "8"})),
    "a RuntimeClass without overhead": template(runtimeClassName="plain"),
    "a RuntimeClass that is not there": template(runtimeClassName="gone"),
    "nodeSelector": template(nodeSelector={"kubernetes.io/arch": "arm64"}),
    "nodeName": template(nodeName="n1"),
    "node affinity": template(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": _TERMS,
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [_LINUX]}}
                ],
            }
        }
    ),
    "Pod affinity": template(
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        }
    ),
    "tolerations": template(
        tolerations=[{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
    ),
    "topologySpreadConstraints": template(
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    ),
    "priorityClassName": template(priorityClassName="high", preemptionPolicy="Never", priority=1000),
    "schedulingGates": template(schedulingGates=[{"name": "example.com/gate"}]),
    "schedulerName": template(schedulerName="other"),
    "resourceClaims": template(
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
        containers=[container(**resources({"cpu": 1}, claims=[{"name": "gpu"}]))],
    ),
    "ports of the host": template(
        hostNetwork=True, containers=[container(ports=[{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}])]
    ),
    "volumes": template(
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "conf", "configMap": {"name": "conf"}},
        ],
        containers=[container(volumeMounts=[{"name": "data", "mountPath": "/data"}])],
    ),
    "volumes with defaults of their own": template(
        volumes=[
            {"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], **resources({"storage": "1Gi"})}}}},
            {"name": "i", "iscsi": {"targetPortal": "192.0.2.1", "iqn": "iqn.2001-04.com.example:s", "lun": 0}},
            {"name": "r", "rbd": {"monitors": ["192.0.2.1"], "image": "i"}},
            {"name": "a", "azureDisk": {"diskName": "d", "diskURI": "https://blob/d.vhd"}},
            {"name": "s", "scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "n"}}},
            {"name": "o", "image": {"reference": "reg/i:1"}},
            {"name": "l", "image": {"reference": "reg/i"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {"name": "h", "hostPath": {"path": "/h"}},
        ]
    ),
    "environment variables twice": template(
        containers=[container(env=[{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}])],
        initContainers=[container("i", env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])],
    ),
    "command, probe and security": template(
        containers=[
            container(
                command=["sh"], args=["-c", "true"], readinessProbe={"tcpSocket": {"port": 80}},
                securityContext={"runAsUser": 1}, workingDir="/", imagePullPolicy="Always",
                resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
            )
        ],
        securityContext={"fsGroup": 1}, os={"name": "linux"}, hostUsers=False,
    ),
    "what is no default": template(
        terminationGracePeriodSeconds=5, dnsPolicy="Default", serviceAccountName="a", restartPolicy="OnFailure",
        activeDeadlineSeconds=60, imagePullSecrets=[{"name": "s"}], enableServiceLinks=False,
    ),
    "an image without a tag": template(containers=[{"name": "c", "image": "reg:5000/i"}]),
}  # fmt: skip
TOPOLOGIES: dict[str, JSON] = {
    "nothing": {},
    "required": {REQUIRED: "rack"},
    "preferred": {PREFERRED: "block"},
    "required and preferred": {REQUIRED: "rack", PREFERRED: "block"},
    "an empty required": {REQUIRED: "", PREFERRED: "block"},
    "unconstrained": {UNCONSTRAINED: "true"},
    "unconstrained, said as 1": {UNCONSTRAINED: "1"},
    "not unconstrained": {UNCONSTRAINED: "false"},
    "preferred and unconstrained": {PREFERRED: "block", UNCONSTRAINED: "maybe"},
    "unconstrained by no truth": {UNCONSTRAINED: "yes"},
    "slices": {REQUIRED: "block", SLICE: "rack", SIZE: "4"},
    "preferred slices": {PREFERRED: "block", SLICE: "rack", SIZE: "2"},
    "slices alone": {SLICE: "rack", SIZE: "4"},
    "a slice without a size": {SLICE: "rack"},
    "a size without a slice": {REQUIRED: "block", SIZE: "4"},
    "a size with a sign": {SLICE: "rack", SIZE: "+4"},
    "a size of no number": {SLICE: "rack", SIZE: "four"},
    "a size of no whole number": {SLICE: "rack", SIZE: "4.0"},
    "a size of nothing": {SLICE: "rack", SIZE: "0"},
    "a size below nothing": {SLICE: "rack", SIZE: "-4"},
    "a size beyond 32 bits": {SLICE: "rack", SIZE: "2147483648"},
    "layers": {REQUIRED: "block", LAYERS: '[{"topology":"rack","size":8},{"topology":"host","size":2}]'},
    "layers alone": {LAYERS: '[{"topology":"rack","size":8}]'},
    "layers beside slices": {LAYERS: '[{"topology":"rack","size":8}]', SLICE: "host", SIZE: "2"},
    "layers with other fields": {LAYERS: '[{"Topology":"rack","SIZE":8,"x":1}]'},
    "no layers": {LAYERS: "[]"},
    "a layer that is null": {LAYERS: '[{"topology":"rack","size":8},null]'},
    "a layer of nothing": {LAYERS: '[{"topology":"rack","size":0}]'},
    "too many layers": {LAYERS: "[{},{},{},{}]"},
    "layers of another type": {LAYERS: '[{"topology":"rack","size":"8"}]'},
    "layers that are no JSON": {LAYERS: "rack"},
    "a group": {REQUIRED: "block", GROUP: "g"},
    "a preferred group": {PREFERRED: "block", GROUP: "g"},
    "a group without a place": {UNCONSTRAINED: "true", GROUP: "g"},
    "a group alone": {GROUP: "g"},
}


def job(pod_template: JSON, **spec: Any) -> JSON:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": pod_template, **spec},
    }


def job_set(*jobs: JSON) -> JSON:
    spec = {"replicatedJobs": [{"name": f"r{number}", **one} for number, one in enumerate(jobs)]}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s"}, "spec": spec}


def py_torch_job(specs: JSON, **more: Any) -> JSON:
    spec = {"pytorchReplicaSpecs": specs, **more}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "p"}, "spec": spec}


def cluster_spec(*groups: JSON, head: JSON | None = None, **more: Any) -> JSON:
    workers = [
        {"groupName": f"g{number}", "rayStartParams": {}, "template": template(), **group}
        for number, group in enumerate(groups)
    ]
    of_head = {"rayStartParams": {}, "template": head or template()}
    return {"headGroupSpec": of_head, "workerGroupSpecs": workers, **more}


def ray_cluster(*groups: JSON, annotations: JSON | None = None, **more: Any) -> JSON:
    metadata = {"name": "c"} | ({"annotations": annotations} if annotations else {})
    return {
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": cluster_spec(*groups, **more)
    }  # fmt: skip


def ray_job(cluster: JSON | None, **more: Any) -> JSON:
    spec = {"entrypoint": "python job.py", **more} | ({"rayClusterSpec": cluster} if cluster is not None else {})
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": spec}


_ONE = {"template": template()}
_TORCH = {"template": template(containers=[CONTAINER | {"name": "pytorch"}])}
KINDS: dict[str, JSON] = {
    "Job": job(template()),
    "Job: parallelism": job(template(), parallelism=3),
    "Job: fewer completions": job(template(), parallelism=8, completions=4),
    "Job: more completions": job(template(), parallelism=2, completions=4),
    "Job: completions alone": job(template(), completions=5),
    "Job: no Pod at a time": job(template(), parallelism=0, completions=2),
    "JobSet": job_set({"template": {"spec": _ONE}}, {"replicas": 2, "template": {"spec": _ONE}}),
    "JobSet: replicas by parallelism": job_set(
        {"replicas": 2, "template": {"spec": {**_ONE, "parallelism": 3, "completions": 2}}},
        {"replicas": 3, "template": {"spec": {**_ONE, "parallelism": 4, "completions": 4}}},
    ),
    "PyTorchJob": py_torch_job({"Worker": {"replicas": 3, **_TORCH}, "Master": {"replicas": 1, **_TORCH}}),
    "PyTorchJob: names in lower case": py_torch_job(
        {"worker": {"replicas": 2, **_TORCH}, "master": {"replicas": 1, **_TORCH}}
    ),
    "PyTorchJob: elastic": py_torch_job(
        {"Worker": {"replicas": 2, **_TORCH}}, elasticPolicy={"minReplicas": 1, "maxReplicas": 4}
    ),
    "RayCluster": ray_cluster({"replicas": 2}),
    "RayCluster: hosts": ray_cluster({"replicas": 2, "numOfHosts": 4}, {"replicas": 0, "numOfHosts": 4}),
    "RayCluster: no replicas": ray_cluster({}),
    "RayCluster: no replicas but the least": ray_cluster({"minReplicas": 2, "maxReplicas": 5, "numOfHosts": 2}),
    "RayCluster: fewer than the least": ray_cluster({"replicas": 1, "minReplicas": 3, "maxReplicas": 4}),
    "RayCluster: more than the most": ray_cluster({"replicas": 5, "minReplicas": 0, "maxReplicas": 2}),
    "RayCluster: at most none": ray_cluster({"replicas": 5, "maxReplicas": 0}),
    "RayCluster: a suspended group": ray_cluster({"replicas": 2, "suspend": True}, {"replicas": 1, "suspend": False}),
    "RayCluster: a suspended group with a least": ray_cluster({"replicas": 2, "minReplicas": 2, "suspend": True}),
    "RayCluster: no workers": ray_cluster(),
    "RayCluster: autoscaling": ray_cluster({"replicas": 1, "maxReplicas": 9}, enableInTreeAutoscaling=True),
    "RayCluster: autoscaling with options": ray_cluster(
        enableInTreeAutoscaling=True, autoscalerOptions=resources({"cpu": "2"}, {"cpu": "3"})
    ),
    "RayCluster: autoscaling without requests": ray_cluster(
        enableInTreeAutoscaling=True, autoscalerOptions={"resources": {}}
    ),
    "RayCluster: Redis is cleaned up": ray_cluster(gcsFaultToleranceOptions={"redisAddress": "r:6379"}),
    "RayCluster: fault tolerance by annotation": ray_cluster(annotations={"ray.io/ft-enabled": "True"}),
    "RayJob": ray_job(cluster_spec({"replicas": 1})),
    "RayJob: a template of its own": ray_job(
        cluster_spec({"replicas": 1}), submitterPodTemplate=template({REQUIRED: "rack"}), submissionMode="K8sJobMode"
    ),
    "RayJob: HTTPMode": ray_job(cluster_spec({"replicas": 1}), submissionMode="HTTPMode"),
    "RayJob: InteractiveMode": ray_job(cluster_spec({"replicas": 1}), submissionMode="InteractiveMode"),
    "RayJob: SidecarMode": ray_job(cluster_spec(), submissionMode="SidecarMode"),
    "RayJob: SidecarMode and autoscaling": ray_job(
        cluster_spec(enableInTreeAutoscaling=True), submissionMode="SidecarMode"
    ),
    "RayJob: hosts and bounds": ray_job(cluster_spec({"replicas": 9, "maxReplicas": 2, "numOfHosts": 3})),
    "RayJob: an existing cluster": ray_job(None, clusterSelector={"ray.io/cluster": "c"}),
    "RayJob: an existing cluster beside a spec": ray_job(cluster_spec(), clusterSelector={"ray.io/cluster": "c"}),
}
OBJECTS: dict[str, JSON] = {
    **{f"template: {name}": job(pod_template) for name, pod_template in TEMPLATES.items()},
    **{f"topology: {name}": job(template(said)) for name, said in TOPOLOGIES.items()},
    **{f"topology of Ray: {name}": ray_cluster(head=template(said)) for name, said in TOPOLOGIES.items()},
    **KINDS,
}

PAIRS: dict[str, tuple[JSON, JSON]] = {
    name: (job(template()), changed)
    for name, changed in {
        "the same": job(template()),
        "another count": job(template(), parallelism=2),
        "another name": job(template(containers=[CONTAINER | {"name": "d"}])),
        "another image": job(template(containers=[CONTAINER | {"image": "i:2"}])),
        "another command": job(template(containers=[CONTAINER | {"command": ["sh"]}])),
        "other arguments": job(template(containers=[CONTAINER | {"args": ["-c"]}])),
        "the same amount in other words": job(template(containers=[container(**resources({"cpu": "1000m"}))])),
        "another request": job(template(containers=[container(**resources({"cpu": "2"}))])),
        "another limit": job(template(containers=[container(**resources({"cpu": "1"}, {"cpu": "1"}))])),
        "one container more": job(template(containers=[CONTAINER, container("d")])),
        "an init container": job(template(initContainers=[container("i")])),
        "tolerations": job(template(tolerations=[{"key": "a", "operator": "Exists"}])),
        "labels and annotations": job({**template({"a": "b"}), "metadata": {"labels": {"a": "b"}}}),
        "nodeSelector": job(template(nodeSelector={"a": "b"})),
        "priorityClassName": job(template(priorityClassName="high")),
        "an environment variable": job(template(containers=[CONTAINER | {"env": [{"name": "A", "value": "1"}]}])),
        "Pod-level resources": job(template(**resources({"cpu": "8"}))),
        "a RuntimeClass": job(template(runtimeClassName="kata")),
    }.items()
}
"""Two Jobs each: are their podSets equivalent?"""


def pod_sets_of_object(obj: JSON) -> list[JSON]:
    """The podSets of the Workload of an AppWrapper that has this object alone."""
    component = {"template": obj}
    return list(pod_sets("w", [component], [component_status(component)]))
