{{- /* What every role has beside its Deployment: (dict "root" $ "role" "webhook"). */ -}}

{{- define "berth.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
# Its Pods ask for the token; nothing else that runs under this name gets it unasked.
automountServiceAccountToken: false
{{- end -}}

{{- define "berth.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  # A Pod that is not ready serves nobody: it must not keep a node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "berth.selectorLabels" . | nindent 6 }}
{{- end -}}

{{- define "berth.metricsService" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "berth.metadata" (merge (dict "suffix" "metrics") .) | nindent 2 }}
    berth.dev/metrics: "true"
spec:
  type: ClusterIP
  ports:
    - {name: metrics, port: 8444, targetPort: health, protocol: TCP}
  selector:
    {{- include "berth.selectorLabels" . | nindent 4 }}
{{- end -}}

{{- /*
With "ports" (what is served beside health), "silent" for what serves nothing at all, and "egress" (ports beside DNS and the API server). Who connects is not
confined: API servers and kubelets have addresses of nodes.
*/ -}}
{{- define "berth.networkPolicy" -}}
{{- $root := .root -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "berth.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- if .silent }}
  ingress: []
  {{- else }}
  ingress:
    - ports:
        {{- range .ports }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
        - {port: 8444, protocol: TCP}
  {{- end }}
  egress:
    - ports:
        # DNS; some distributions serve it at 5353 behind their Service.
        - {port: 53, protocol: UDP}
        - {port: 53, protocol: TCP}
        - {port: 5353, protocol: UDP}
        - {port: 5353, protocol: TCP}
    - ports:
        {{- $tracing := ternary (list (include "berth.tracingPort" $root | int)) list (ne $root.Values.tracing.endpoint "") }}
        {{- $others := concat (.egress | default list) $tracing }}
        {{- $blocks := $root.Values.networkPolicy.apiServerCIDRs }}
        {{- range concat $root.Values.networkPolicy.apiServerPorts (ternary list $others (not (empty $blocks))) | uniq }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
      {{- with $blocks }}
      to:
        {{- range . }}
        - ipBlock: {cidr: {{ . | quote }}}
        {{- end }}
      {{- end }}
    {{- if and $blocks $others }}
    # The gateway and the collector have addresses of their own.
    - ports:
        {{- range $others | uniq }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
    {{- end }}
{{- end -}}

{{- /* A list of documents for a role, as all roles have them. */ -}}
{{- define "berth.companions" -}}
{{ include "berth.serviceAccount" . }}
---
{{ include "berth.metricsService" . }}
{{- if .root.Values.podDisruptionBudget.enabled }}
---
{{ include "berth.disruptionBudget" . }}
{{- end }}
{{- if .root.Values.networkPolicy.enabled }}
---
{{ include "berth.networkPolicy" . }}
{{- end }}
{{- end -}}
