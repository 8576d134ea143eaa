module berth.dev/tests/multus

go 1.24.11

require (
	github.com/containernetworking/cni v1.3.0
	gopkg.in/k8snetworkplumbingwg/multus-cni.v4 v4.2.4
)
