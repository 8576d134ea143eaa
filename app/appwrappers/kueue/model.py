"""Names of Kueue's API: kinds, marks, conditions of a Workload and their reasons. Types and names are Kueue's own."""

from __future__ import annotations

from app.kube.resources import Resource

GROUP = "kueue.x-k8s.io"
WORKLOADS = Resource(GROUP, "v1beta2", "workloads", "Workload")
WORKLOADS_V1BETA1 = Resource(GROUP, "v1beta1", "workloads", "Workload")
LOCAL_QUEUES = Resource(GROUP, "v1beta2", "localqueues", "LocalQueue")
LOCAL_QUEUES_V1BETA1 = Resource(GROUP, "v1beta1", "localqueues", "LocalQueue")
CLUSTER_QUEUES = Resource(GROUP, "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
RESOURCE_FLAVORS = Resource(GROUP, "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
WORKLOAD_PRIORITY_CLASSES = Resource(
    GROUP, "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False
)

DEFAULT_QUEUE = "default"
"""The LocalQueue of jobs that name none, where their namespace has it."""
RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"
"""Finalizer of a Workload that a job owns."""
JOB_UID = "kueue.x-k8s.io/job-uid"
"""Label of a Workload: the UID of its job."""
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
"""Label of a job: its WorkloadPriorityClass."""
MAX_EXEC_TIME = "kueue.x-k8s.io/max-exec-time-seconds"
"""Label of a job."""
PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
"""Annotation or label of a job: the Workload that was made for it."""
PODSET = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_NAME = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_NAME = "kueue.x-k8s.io/cluster-queue-name"
"""Labels that an admitted job's Pods get."""
WORKLOAD_NAME = "kueue.x-k8s.io/workload"
"""Annotation that an admitted job's Pods get."""
ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
"""Annotation of a job and of its Workload: names of who holds back its admission, parted by commas."""
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
"""Annotation of a Workload: a whole number that is added to its priority."""
PROVISIONING = "provreq.kueue.x-k8s.io/"
"""Prefix of annotations of a job that its Workload has too: what it asks of the provisioning of nodes."""
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""The value of a job's `spec.managedBy` where another cluster runs it."""

QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
EVICTED = "Evicted"
PREEMPTED = "Preempted"
REQUEUED = "Requeued"
PODS_READY = "PodsReady"
FINISHED = "Finished"
DEACTIVATION_TARGET = "DeactivationTarget"
"""The types of a Workload's conditions."""

EVICTED_BY_PREEMPTION = "Preempted"
EVICTED_BY_DEACTIVATION = "Deactivated"
EVICTED_BY_NODE_FAILURES = "NodeFailures"
EVICTED_BY_PODS_READY_TIMEOUT = "PodsReadyTimeout"
EVICTED_BY_CLUSTER_QUEUE = "ClusterQueueStopped"
EVICTED_BY_LOCAL_QUEUE = "LocalQueueStopped"
EVICTED_BY_CHECK = "AdmissionCheck"
"""Reasons of `Evicted` (the condition of a deactivated one may have more behind it: `DeactivatedDueTo…`)."""

WAITING_FOR_QUOTA = "WaitingForQuota"
EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
NO_MATCHING_FLAVOR = "NoMatchingFlavor"
MISCONFIGURED = "Misconfigured"
WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
SUSPENDED = "Suspended"
PENDING_EVALUATION = "PendingEvaluation"
"""Reasons of a `QuotaReserved` that is False."""
NO_RESERVATION = "NoReservation"
"""Reason of an `Admitted` that is False."""
IN_CLUSTER_QUEUE = "InClusterQueue"
"""Reason of `Preempted`: by a Workload of the same ClusterQueue."""

PAST_SECONDS = "accumulatedPastExecutionTimeSeconds"
PAST_SECONDS_V1BETA1 = "accumulatedPastExexcutionTimeSeconds"
"""Field of a Workload's status: the seconds for which it was admitted before its last eviction, in all; and how v1beta1
spells it.
"""

SUCCEEDED, FAILED, OUT_OF_SYNC = "Succeeded", "Failed", "OutOfSync"
FAILED_TO_START = "FailedToStart"
"""Reasons of `Finished`."""
