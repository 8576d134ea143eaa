"""What the doctor can find: of each code the severities that it has, its title, and what follows from it by default.

A code is `BERTH`, two digits of the check and two of the finding. It never changes and is never given to another
finding. `docs/troubleshooting.md` has a section for each.
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE = "docs/troubleshooting.md"


@dataclass(frozen=True, slots=True)
class Declared:
    """`severities` are words of `Severity`. A check gives the consequence where it depends on what was found."""

    severities: str
    title: str
    consequence: str = ""


CHECK_NUMBERS = {
    "01": "clock",
    "02": "definitions",
    "03": "deployments",
    "04": "leases",
    "05": "registrations",
    "06": "certificate",
    "07": "reachability",
    "08": "permissions",
    "10": "switches",
    "11": "attachments",
    "12": "pods",
    "20": "tenants",
    "21": "agent",
    "30": "rules",
    "31": "companions",
    "40": "appwrappers",
    "50": "claims",
    "60": "rmd",
}
"""The checks by the first two digits of their codes; 00 is of all checks."""

FINDINGS = {
    "BERTH0001": Declared(
        "warning",
        "A right that the doctor needs is missing",
        "what is wrong here stays unseen; run the doctor as a user who has this right",
    ),
    "BERTH0002": Declared(
        "warning", "The API server did not answer a question of the doctor", "what is wrong here stays unseen"
    ),
    "BERTH0003": Declared(
        "warning", "The doctor could not read an object", "what is wrong here stays unseen; please report it"
    ),
    "BERTH0004": Declared("error warning info", "There are more findings of a kind than are shown", "as above"),
    "BERTH0101": Declared("info", "The API server does not say its time"),
    "BERTH0102": Declared("warning error", "The clock of this machine and that of the API server differ"),
    "BERTH0103": Declared("warning error", "The clock of a node with Berth on it is ahead"),
    "BERTH0201": Declared("error", "A CustomResourceDefinition is missing"),
    "BERTH0202": Declared("error", "A CustomResourceDefinition is not served"),
    "BERTH0203": Declared("error", "A CustomResourceDefinition lacks the version that Berth uses"),
    "BERTH0204": Declared("warning", "Objects are stored in an old version"),
    "BERTH0205": Declared("warning", "A CustomResourceDefinition is not that of this version of Berth"),
    "BERTH0206": Declared(
        "info",
        "A CustomResourceDefinition is newer than this doctor",
        "run the doctor of the version that is installed",
    ),
    "BERTH0301": Declared("error", "A role that was named with --role does not run"),
    "BERTH0302": Declared("error", "Webhooks are registered, and the Service that they call is missing"),
    "BERTH0303": Declared(
        "info",
        "Webhooks are registered, and no role runs in this namespace",
        "Berth runs elsewhere, or in a namespace that --namespace has to name",
    ),
    "BERTH0304": Declared("warning", "Berth is not installed in this namespace"),
    "BERTH0305": Declared("error", "A role is scaled to 0"),
    "BERTH0306": Declared("warning error", "Replicas of a role are not ready"),
    "BERTH0307": Declared("info warning", "A role has one replica"),
    "BERTH0308": Declared("warning", "Roles run different images"),
    "BERTH0309": Declared("warning", "Roles allow tenants different things"),
    "BERTH0310": Declared(
        "error",
        "The default PriorityClass of the cluster is not allowed for tenants",
        "the API server gives it to every Pod without a class: all new Pods of tenants are refused",
    ),
    "BERTH0311": Declared("info", "Pods that are not ready were not asked what they wait for"),
    "BERTH0401": Declared("error", "No replica has taken the Lease"),
    "BERTH0402": Declared("error", "The Lease has a holder and no time of renewal"),
    "BERTH0403": Declared("error", "The Lease is not renewed"),
    "BERTH0404": Declared(
        "warning",
        "The Lease is renewed with a time in the future",
        "that node's clock is wrong; ages and certificates from there are off",
    ),
    "BERTH0501": Declared("error warning", "No webhook configuration calls Berth"),
    "BERTH0502": Declared("error warning", "A webhook is not registered as Berth would register it"),
    "BERTH0503": Declared("info warning", "A webhook lets objects pass while Berth is away"),
    "BERTH0504": Declared("info", "The timeout of a webhook is shorter than the time that Berth takes for a review"),
    "BERTH0505": Declared("error warning", "A webhook is called for a namespace that it has to leave out"),
    "BERTH0506": Declared("error", "No webhook is called for the Pods of a tenant"),
    "BERTH0507": Declared(
        "warning",
        "The Pods of a tenant can opt out of their webhook",
        "a Pod that opts out can run on the nodes of any tenant",
    ),
    "BERTH0508": Declared("info", "A namespace has opted out"),
    "BERTH0509": Declared(
        "error",
        "Objects that tenants create are not checked",
        "what others than the gateway write there is not checked: a Pod can keep Pods of all other "
        "namespaces from being scheduled",
    ),
    "BERTH0510": Declared(
        "error",
        "The matchConditions leave out Pods that ask for something",
        "Berth is not asked about these Pods, and nothing is injected into them",
    ),
    "BERTH0511": Declared(
        "info",
        "The matchConditions cannot be evaluated",
        "whether they leave out Pods that need Berth was not checked; where the API server cannot tell "
        "either, failurePolicy decides about the Pod",
    ),
    "BERTH0512": Declared("warning", "Berth is not asked about a kind that it checks"),
    "BERTH0513": Declared("warning", "Another release injects into the same Pods"),
    "BERTH0514": Declared("warning", "Berth is registered twice for the same Pods"),
    "BERTH0515": Declared(
        "warning",
        "Network Resources Injector is registered beside Berth",
        "resources are asked for twice, and Pods stay Pending",
    ),
    "BERTH0516": Declared("error", "The hook of an uninstallation has not removed the registrations"),
    "BERTH0601": Declared("error", "The caBundle of a webhook does not verify the certificate"),
    "BERTH0602": Declared("warning", "The CA in a caBundle ends soon"),
    "BERTH0603": Declared("error", "A certificate cannot be read"),
    "BERTH0604": Declared(
        "info", "The certificate behind a URL was not seen", "see what `reachability` says for the API server"
    ),
    "BERTH0605": Declared("error", "No Secret holds the certificate of the webhook", "Pods of the webhook wait for it"),
    "BERTH0606": Declared("error", "A certificate has expired"),
    "BERTH0607": Declared(
        "error", "A certificate is not valid yet", "a clock is wrong; until then every call to Berth fails"
    ),
    "BERTH0608": Declared("warning", "A certificate was not renewed in time"),
    "BERTH0609": Declared("error", "A certificate is for another name"),
    "BERTH0610": Declared("error", "The Secret of a role, or a file in it, is missing"),
    "BERTH0701": Declared("error", "A registration leads to no ready Pod"),
    "BERTH0702": Declared("info", "No namespace is left in which the doctor could try the webhook"),
    "BERTH0703": Declared("error", "The API server did not ask Berth"),
    "BERTH0704": Declared(
        "error", "The API server cannot call Berth", "no object of its rules can be created while this lasts"
    ),
    "BERTH0705": Declared("info", "Another component refused what the doctor tried"),
    "BERTH0801": Declared("error", "A role lacks several permissions"),
    "BERTH0802": Declared("error warning", "A role lacks a permission"),
    "BERTH0803": Declared("error", "A role may not act in the namespace of a tenant"),
    "BERTH0804": Declared("warning", "A role may do more than it needs"),
    "BERTH0805": Declared(
        "warning", "A role that was named with --role has no ServiceAccount", "its rights were not checked"
    ),
    "BERTH1001": Declared(
        "warning",
        "The control switches are in a namespace from which Berth does not read them",
        "its features are off, and Pods with its labels get nothing injected",
    ),
    "BERTH1002": Declared("warning", "The ConfigMap of the control switches lacks its key", "nothing of it is used"),
    "BERTH1003": Declared("error", "An entry of the control switches cannot be read"),
    "BERTH1004": Declared(
        "error",
        "The control switches inject a network whose attachment does not exist",
        "Berth denies every Pod that carries the label",
    ),
    "BERTH1101": Declared("error", "A NetworkAttachmentDefinition cannot be used"),
    "BERTH1201": Declared(
        "error",
        "Pods run without their devices",
        "no device is allotted, and the node may have none: its networks do not come up",
    ),
    "BERTH1202": Declared(
        "warning",
        "Pods run without information about their networks",
        "it does not see what its networks are, or has others than it should",
    ),
    "BERTH1203": Declared(
        "error",
        "Pods select a network whose attachment does not exist",
        "Multus cannot attach it, and Berth denies every Pod that is to replace it",
    ),
    "BERTH1204": Declared(
        "warning", "Pods that run would be denied today", "it runs on, but a Pod that is to replace it is denied"
    ),
    "BERTH1205": Declared(
        "error",
        "Pods run without the node affinity of their tenant or host",
        "it may run on a DPU of another tenant or of another host",
    ),
    "BERTH1206": Declared(
        "error",
        "The Pods of a workload are denied",
        "it gets no new Pod: not at a roll-out, and not in place of one that ends",
    ),
    "BERTH1207": Declared(
        "error", "Pods wait for a resource that nothing offers", "they stay Pending: no node can take them"
    ),
    "BERTH2001": Declared("error", "A Tenant is not ready"),
    "BERTH2002": Declared("info", "A Tenant is suspended"),
    "BERTH2003": Declared(
        "error",
        "A change of a Tenant was not processed",
        "its namespace, its nodes and its certificates are not kept as the Tenant says",
    ),
    "BERTH2004": Declared(
        "warning", "A DPU has no host label", "companions of the workloads of that host stay Pending"
    ),
    "BERTH2005": Declared(
        "warning", "A host of a Tenant has no DPU", "companions of the workloads of these hosts stay Pending"
    ),
    "BERTH2006": Declared("error", "A namespace is named for one tenant and labeled for another"),
    "BERTH2007": Declared("error warning", "A bound of a tenant's namespace is missing"),
    "BERTH2008": Declared("error info", "The agent of a Tenant is not connected"),
    "BERTH2009": Declared(
        "error",
        "Tenants' Pods are not confined: no webhook is called for Pods",
        "new Pods of tenants are placed on any node: on DPUs of other tenants, and on nodes of the infra cluster",
    ),
    "BERTH2101": Declared("error", "The gateway refuses the certificate of the agent"),
    "BERTH2102": Declared("error", "The gateway refuses the cluster of the agent"),
    "BERTH2103": Declared("error", "The agent does not trust the certificate of the gateway"),
    "BERTH2104": Declared(
        "error", "The agent does not reach the gateway", "this tenant's workloads and rules do not arrive"
    ),
    "BERTH3001": Declared("error", "A rule or a UVS object is in error"),
    "BERTH3002": Declared(
        "error",
        "A change of a rule or of a UVS object was not processed",
        "the change has no effect yet",
    ),
    "BERTH3003": Declared(
        "warning",
        "A rule of the admin does not serve all of its workloads",
        "these workloads are without their companions; the rule serves the others",
    ),
    "BERTH3004": Declared("info", "A rule or a UVS object waits"),
    "BERTH3005": Declared("info warning", "A rule matches no workload", "it has no companions"),
    "BERTH3006": Declared(
        "warning", "Companions of a rule do not run", "their workloads are without what the companions do for them"
    ),
    "BERTH3101": Declared(
        "warning",
        "A Pod has the label of companions and is not a companion",
        "the controller does not replace it when it ends, and does not delete it",
    ),
    "BERTH3102": Declared("error", "A companion does not end"),
    "BERTH3103": Declared("error", "A companion is Pending"),
    "BERTH4001": Declared("error", "Two controllers act on AppWrappers", "both create and delete the same objects"),
    "BERTH4002": Declared(
        "error",
        "AppWrappers are not checked when they are created",
        "users who may create AppWrappers can use the rights of the controller",
    ),
    "BERTH4003": Declared(
        "error", "Two controllers write the Workloads of AppWrappers", "both write the same Workloads"
    ),
    "BERTH4004": Declared(
        "warning", "No controller writes the Workloads of AppWrappers", "AppWrappers with a queue stay suspended"
    ),
    "BERTH4005": Declared(
        "error", "An AppWrapper does not finish the deletion of its objects", "its quota is held until they are gone"
    ),
    "BERTH4006": Declared(
        "error",
        "An AppWrapper in a queue has no Workload",
        "it stays suspended: no controller makes the Workload, or the managedJobsNamespaceSelector of Kueue "
        "does not select its namespace",
    ),
    "BERTH4007": Declared(
        "error", "An AppWrapper has a kind that the controller may not create", "the controller may not create it"
    ),
    "BERTH5001": Declared(
        "warning", "Two roles publish network data", "each claim is written twice, and their options may differ"
    ),
    "BERTH5002": Declared(
        "error", "The controller claims has no ready replica", "network data of Pods are not published"
    ),
    "BERTH5003": Declared(
        "warning", "No role publishes network data", "the addresses of their devices are not found in status.devices"
    ),
    "BERTH5004": Declared(
        "warning",
        "A driver does not publish its network data",
        "their addresses are not found in status.devices, and the driver does not try again",
    ),
    "BERTH5005": Declared(
        "error", "Network data of a driver may not be written", "since Kubernetes 1.36 the API server refuses them"
    ),
    "BERTH5006": Declared("error", "Multus may not read claims", "Pods with such a device stay in ContainerCreating"),
    "BERTH5007": Declared("info", "How the devices of attachments are served"),
    "BERTH5008": Declared(
        "info warning",
        "Nothing serves a resource of an attachment",
        "Pods that select it stay Pending: run a device plugin or a DRA driver for it, or map it by a DeviceClass",
    ),
    "BERTH5009": Declared(
        "warning",
        "Multus does not find the devices of a DeviceClass",
        "Pods that select it get a device, and stay in ContainerCreating",
    ),
    "BERTH5010": Declared(
        "error",
        "The controller network-services does not run",
        "their EndpointSlices are not written, or stay as they are",
    ),
    "BERTH5011": Declared("error", "A Service on a secondary network cannot be served"),
    "BERTH5012": Declared(
        "error",
        "The definitions of claims cannot be read",
        "what was read before stays in force until the role restarts; then none of its definitions is known",
    ),
    "BERTH5013": Declared(
        "warning", "The controller claim-templates does not run", "namespaces get no ResourceClaimTemplates of them"
    ),
    "BERTH5014": Declared(
        "warning",
        "A ResourceClaimTemplate has the name of a definition, and is not made from it",
        "Pods of this namespace that use it get claims of this template, and not those of the definition",
    ),
    "BERTH6001": Declared(
        "error",
        "Two controllers act on RmdWorkloads",
        "both write the same reservations and statuses, and the operator's PATCH can set wrong bandwidth",
    ),
    "BERTH6002": Declared(
        "error",
        "The controller rmd has no ready replica",
        "nothing is reserved or released, and RmdWorkloads that are deleted stay",
    ),
    "BERTH6003": Declared(
        "error",
        "No controller acts on the objects of RMD",
        "nothing is reserved or released, and RmdWorkloads that are deleted stay",
    ),
    "BERTH6004": Declared("warning", "An RmdConfig is in another namespace than the daemons", "it has no effect"),
    "BERTH6005": Declared("warning", "An RmdConfig selects no node", "no daemon runs"),
    "BERTH6006": Declared("error", "An RmdConfig is not carried out", "daemons or node agents do not run"),
    "BERTH6007": Declared(
        "error info",
        "A DaemonSet of RMD is not that of the RmdConfig",
        "the RmdConfig decides neither about its image nor about its nodes",
    ),
    "BERTH6008": Declared(
        "error", "A node has no daemon of RMD", "RmdConfig rmdconfig selects it, and nothing is reserved there"
    ),
    "BERTH6009": Declared(
        "error",
        "A daemon of RMD does not answer",
        "nothing is reserved or released there; what the daemon holds stays in force",
    ),
    "BERTH6010": Declared("error", "The client certificate for the daemons cannot be used"),
    "BERTH6011": Declared("warning", "The client certificate for the daemons was not renewed in time"),
    "BERTH6012": Declared(
        "error",
        "The container runtime and RMD set the same classes",
        "both set resctrl: each can take away the cores and ways that the other has given",
    ),
    "BERTH6013": Declared("warning", "A daemon has reservations of no RmdWorkload"),
    "BERTH6014": Declared("error", "A daemon has lost reservations"),
    "BERTH6015": Declared(
        "error", "An RmdWorkload has a wrong spec", "no daemon is asked: it keeps what it had before, or has nothing"
    ),
    "BERTH6016": Declared("warning", "An RmdWorkload has no node", "nothing is reserved"),
    "BERTH6017": Declared("error", "An RmdWorkload waits for its daemons"),
    "BERTH6018": Declared("error", "An RmdWorkload is not deleted"),
    "BERTH6019": Declared("error", "A daemon refuses an RmdWorkload"),
    "BERTH6020": Declared(
        "error",
        "A change of an RmdWorkload was not processed",
        "its cores run without the cache, the bandwidth or the P-state that it asks for",
    ),
}


def section_of(code: str) -> str:
    """The section about a code, as a link from the project's directory."""
    return f"{PAGE}#{code.lower()}"
