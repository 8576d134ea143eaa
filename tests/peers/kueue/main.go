// Command kueue says what Kueue and the controllers of jobs make of objects: the podSets, and what one Pod requests.
//
// It reads {"objects": {NAME: OBJECT}, "pairs": {NAME: [PODSET, PODSET]}, "ray": {NAME: OBJECT}} from standard input, and
// writes {"objects": {NAME: {"podSets": [...], "requests": [...]} or {"error": TEXT}}, "pairs": {NAME: {...}}, "ray":
// {NAME: TEXT}}, where the text is why KubeRay refuses an object. Counts of Ray's kinds are those of KubeRay, since
// Kueue's own differ from the Pods that it makes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"os"

	kftraining "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/common"
	rayutils "github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	resourcehelpers "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/controller/jobs/jobset"
	"sigs.k8s.io/kueue/pkg/controller/jobs/kubeflow/jobs/pytorchjob"
	"sigs.k8s.io/kueue/pkg/controller/jobs/raycluster"
	"sigs.k8s.io/kueue/pkg/controller/jobs/rayjob"
	"sigs.k8s.io/kueue/pkg/util/equality"
	"sigs.k8s.io/kueue/pkg/webhooks"
	"sigs.k8s.io/kueue/pkg/workload"
)

// made is what becomes of one object; requests has what one Pod of each podSet requests.
type made struct {
	PodSets  []kueue.PodSet        `json:"podSets"`
	Requests []corev1.ResourceList `json:"requests"`
	Error    string                `json:"error,omitempty"`
}

// same is whether two podSets are equivalent, while a Workload waits and when it is admitted.
type same struct {
	Waiting  bool `json:"waiting"`
	Admitted bool `json:"admitted"`
}

func main() {
	var input struct {
		Objects map[string]json.RawMessage `json:"objects"`
		Pairs   map[string][2]kueue.PodSet `json:"pairs"`
		Ray     map[string]json.RawMessage `json:"ray"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		log.Fatal(err)
	}
	cluster := newCluster()
	objects := map[string]made{}
	for name, raw := range input.Objects {
		found, err := madeOf(cluster, raw)
		if err != nil {
			found = made{Error: err.Error()}
		}
		objects[name] = found
	}
	pairs := map[string]same{}
	for name, pair := range input.Pairs {
		left, right := pair[:1], pair[1:]
		pairs[name] = same{
			Waiting:  equality.ComparePodSetSlices(left, right),
			Admitted: equality.ComparePodSetSlices(left, right, equality.WithIgnoreTolerations()),
		}
	}
	refusals := map[string]string{}
	for name, raw := range input.Ray {
		refusals[name] = refusalOf(raw)
	}
	writer := json.NewEncoder(os.Stdout)
	writer.SetIndent("", " ")
	if err := writer.Encode(map[string]any{"objects": objects, "pairs": pairs, "ray": refusals}); err != nil {
		log.Fatal(err)
	}
}

// refusalOf is why KubeRay does nothing for an object, "" where it does.
func refusalOf(raw json.RawMessage) string {
	var kind metav1.TypeMeta
	must(json.Unmarshal(raw, &kind))
	var errs []error
	switch kind.Kind {
	case "RayCluster":
		var cluster rayv1.RayCluster
		must(json.Unmarshal(raw, &cluster))
		bounded(&cluster.Spec)
		errs = append(errs, rayutils.ValidateRayClusterMetadata(cluster.ObjectMeta),
			rayutils.ValidateRayClusterSpec(&cluster.Spec, cluster.Annotations),
			rayutils.ValidateRayClusterUpgradeOptions(&cluster))
	case "RayJob":
		var job rayv1.RayJob
		must(json.Unmarshal(raw, &job))
		if job.Spec.SubmissionMode == "" {
			job.Spec.SubmissionMode = rayv1.K8sJobMode
		}
		bounded(job.Spec.RayClusterSpec)
		errs = append(errs, rayutils.ValidateRayJobMetadata(job.ObjectMeta), rayutils.ValidateRayJobSpec(&job))
	case "RayService":
		var service rayv1.RayService
		must(json.Unmarshal(raw, &service))
		bounded(&service.Spec.RayClusterSpec)
		errs = append(errs, rayutils.ValidateRayServiceMetadata(service.ObjectMeta), rayutils.ValidateRayServiceSpec(&service))
	case "RayCronJob":
		var job rayv1.RayCronJob
		must(json.Unmarshal(raw, &job))
		bounded(job.Spec.JobTemplate.RayClusterSpec)
		errs = append(errs, rayutils.ValidateRayCronJobSpec(&job))
	}
	if err := errors.Join(errs...); err != nil {
		return err.Error()
	}
	return ""
}

// bounded gives worker groups the defaults of KubeRay's definitions.
func bounded(spec *rayv1.RayClusterSpec) {
	if spec == nil {
		return
	}
	for index := range spec.WorkerGroupSpecs {
		group := &spec.WorkerGroupSpecs[index]
		if group.MinReplicas == nil {
			group.MinReplicas = new(int32)
		}
		if group.MaxReplicas == nil {
			group.MaxReplicas = new(int32(math.MaxInt32))
		}
	}
}

// newCluster has the RuntimeClass kata with an overhead, and the RuntimeClass plain without.
func newCluster() client.Client {
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	must(kueue.AddToScheme(scheme))
	overhead := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("250m"),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	kata := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Handler: "kata", Overhead: &nodev1.Overhead{PodFixed: overhead},
	}
	plain := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Handler: "plain"}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(kata, plain).
		WithIndex(&corev1.LimitRange{}, indexer.LimitRangeHasContainerOrPodType, indexer.IndexLimitRangeHasContainerOrPodType).
		Build()
}

func madeOf(cluster client.Client, raw json.RawMessage) (made, error) {
	ctx := context.Background()
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return made{}, err
	}
	newJob, known := map[string]func() jobframework.GenericJob{
		"Job": job.NewJob, "JobSet": jobset.NewJob, "PyTorchJob": pytorchjob.NewJob,
		"RayCluster": raycluster.NewJob, "RayJob": func() jobframework.GenericJob { return &rayjob.RayJob{} },
	}[kind.Kind]
	if !known {
		return made{}, fmt.Errorf("no integration for %s", kind.Kind)
	}
	generic := newJob()
	if err := json.Unmarshal(raw, generic.Object()); err != nil {
		return made{}, err
	}
	counts := complete(generic.Object())
	if skipped, can := generic.(jobframework.JobWithSkip); can && skipped.Skip(ctx) {
		return made{PodSets: []kueue.PodSet{}, Requests: []corev1.ResourceList{}}, nil
	}
	podSets, err := jobframework.JobPodSets(ctx, generic, cluster)
	if err != nil {
		return made{}, err
	}
	for index, count := range counts {
		podSets[1+index].Count = count
	}
	wl := &kueue.Workload{Spec: kueue.WorkloadSpec{PodSets: podSets}}
	if faults := webhooks.ValidateWorkload(wl, nil); len(faults) > 0 {
		return made{}, faults.ToAggregate()
	}
	counted := wl.DeepCopy()
	workload.AdjustResources(ctx, cluster, counted)
	found := made{PodSets: podSets}
	for index := range counted.Spec.PodSets {
		pod := &corev1.Pod{Spec: counted.Spec.PodSets[index].Template.Spec}
		found.Requests = append(found.Requests, resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{}))
	}
	return found, nil
}

// complete gives an object the defaults of its API, and says how many Pods KubeRay makes for each worker group.
func complete(object client.Object) []int32 {
	switch typed := object.(type) {
	case *batchv1.Job:
		if typed.Spec.Parallelism == nil {
			typed.Spec.Parallelism = new(int32(1))
		}
	case *jobsetapi.JobSet:
		for index := range typed.Spec.ReplicatedJobs {
			if typed.Spec.ReplicatedJobs[index].Replicas == 0 {
				typed.Spec.ReplicatedJobs[index].Replicas = 1
			}
		}
	case *kftraining.PyTorchJob:
		// The operator gives names and replicas their defaults when it reads a job; it stores none, as that port.
		templates := map[*kftraining.ReplicaSpec]corev1.PodTemplateSpec{}
		for _, spec := range typed.Spec.PyTorchReplicaSpecs {
			templates[spec] = *spec.Template.DeepCopy()
		}
		kftraining.SetDefaults_PyTorchJob(typed)
		for _, spec := range typed.Spec.PyTorchReplicaSpecs {
			spec.Template = templates[spec]
		}
	case *rayv1.RayCluster:
		return workers(&typed.Spec)
	case *rayv1.RayJob:
		if typed.Spec.SubmissionMode == "" {
			typed.Spec.SubmissionMode = rayv1.K8sJobMode
		}
		if typed.Spec.RayClusterSpec == nil || len(typed.Spec.ClusterSelector) > 0 {
			return nil
		}
		if typed.Spec.SubmissionMode == rayv1.K8sJobMode {
			// KubeRay's own template: Kueue has a copy of it.
			template := common.GetSubmitterTemplate(&typed.Spec, typed.Spec.RayClusterSpec)
			typed.Spec.SubmitterPodTemplate = &template
		}
		return workers(typed.Spec.RayClusterSpec)
	}
	return nil
}

func workers(spec *rayv1.RayClusterSpec) []int32 {
	counts := []int32{}
	for index := range spec.WorkerGroupSpecs {
		group := &spec.WorkerGroupSpecs[index]
		if group.Replicas == nil {
			group.Replicas = new(int32)
		}
		if group.NumOfHosts == 0 {
			group.NumOfHosts = 1
		}
		counts = append(counts, rayutils.GetWorkerGroupDesiredReplicas(*group))
	}
	return counts
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
