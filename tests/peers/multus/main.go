// What Multus makes of networks annotations: reads one JSON object a line, {"networks": …, "default": …}, and writes
// one answer a line. All that parses and checks is the code of multus-cni and of containernetworking/cni.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/utils"
	"gopkg.in/k8snetworkplumbingwg/multus-cni.v4/pkg/k8sclient"
	"gopkg.in/k8snetworkplumbingwg/multus-cni.v4/pkg/logging"
	"gopkg.in/k8snetworkplumbingwg/multus-cni.v4/pkg/types"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const networksAnnotation = "k8s.v1.cni.cncf.io/networks"

type question struct {
	Networks string  `json:"networks"`
	Default  *string `json:"default,omitempty"`
}

type element struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	Device    string   `json:"deviceID,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	Routes    []string `json:"default-route,omitempty"`
}

// Names are those that the interfaces would have, faults what CNI says against one of them.
type answer struct {
	question
	Error    string    `json:"error,omitempty"`
	Elements []element `json:"elements,omitempty"`
	Default  *element  `json:"default_element,omitempty"`
	Names    []string  `json:"names,omitempty"`
	Faults   []string  `json:"faults,omitempty"`
	Routes   string    `json:"routes,omitempty"`
}

func parsed(text, namespace string) (selected []*types.NetworkSelectionElement, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", Namespace: namespace, Annotations: map[string]string{networksAnnotation: text}}}
	return k8sclient.GetPodNetwork(pod)
}

func described(one *types.NetworkSelectionElement) element {
	routes := []string{}
	if one.GatewayRequest != nil {
		for _, gateway := range *one.GatewayRequest {
			routes = append(routes, gateway.String())
		}
	}
	return element{one.Namespace, one.Name, one.InterfaceRequest, one.IPRequest, one.DeviceID, one.MacRequest, routes}
}

func delegated(one *types.NetworkSelectionElement) *types.DelegateNetConf {
	delegate, err := types.LoadDelegateNetConf([]byte(`{"cniVersion": "1.0.0", "type": "macvlan"}`), one, "", "")
	if err != nil {
		panic(err)
	}
	return delegate
}

func faults(name string) []string {
	if wrong := utils.ValidateInterfaceName(name); wrong != nil {
		return []string{wrong.Error()}
	}
	return nil
}

func answered(asked question) answer {
	found := answer{question: asked, Elements: []element{}}
	delegates := []*types.DelegateNetConf{{MasterPlugin: true}}
	if asked.Default != nil {
		chosen, err := parsed(*asked.Default, "kube-system")
		if err == nil && len(chosen) != 1 {
			err = fmt.Errorf("%d default networks", len(chosen))
		}
		if err != nil {
			found.Error = "default network: " + err.Error()
			return found
		}
		first := described(chosen[0])
		found.Default = &first
		delegates[0] = delegated(chosen[0])
		if first.Interface != "" {
			found.Faults = faults(first.Interface)
		}
	}
	selected, err := parsed(asked.Networks, "default")
	if _, none := err.(*k8sclient.NoK8sNetworkError); err != nil && !none {
		found.Error = err.Error()
		return found
	}
	for index, one := range selected {
		found.Elements = append(found.Elements, described(one))
		delegates = append(delegates, delegated(one))
		name := one.InterfaceRequest
		if name == "" {
			name = fmt.Sprintf("net%d", index+1)
		}
		found.Names = append(found.Names, name)
		found.Faults = append(found.Faults, faults(name)...)
	}
	for _, delegate := range delegates {
		if selected != nil && delegate.GatewayRequest != nil {
			if err := types.CheckGatewayConfig(delegates); err != nil {
				found.Routes = err.Error()
			}
			break
		}
	}
	return found
}

func main() {
	logging.SetLogStderr(false)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		if err := out.Encode(answered(asked)); err != nil {
			panic(err)
		}
	}
}
