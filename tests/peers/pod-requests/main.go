// Reads specs of Pods as an API server stores them (a JSON array on standard input), and writes what the scheduler and
// quota count of each.
package main

import (
	"encoding/json"
	"log"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

type amounts struct {
	Requests v1.ResourceList `json:"requests"`
	Limits   v1.ResourceList `json:"limits"`
}

func main() {
	var specs []v1.PodSpec
	if err := json.NewDecoder(os.Stdin).Decode(&specs); err != nil {
		log.Fatal(err)
	}
	counted := []amounts{}
	for _, spec := range specs {
		pod := v1.Pod{Spec: spec}
		options := resource.PodResourcesOptions{}
		counted = append(counted, amounts{resource.PodRequests(&pod, options), resource.PodLimits(&pod, options)})
	}
	if err := json.NewEncoder(os.Stdout).Encode(counted); err != nil {
		log.Fatal(err)
	}
}
