{{- /* What every role has beside its Pods: (dict "root" $ "role" "webhook" "entry" ENTRY-OF-roles.json). */ -}}

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
  # A Pod that is not ready answers no review: it must not keep a node from being drained.
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

{{- /* The Service of a role that has ports; `<role>.service` in the values says how it is reached, if anything does. */ -}}
{{- define "berth.service" -}}
{{- $service := (index .root.Values .role | default dict).service | default dict -}}
{{- $type := $service.type | default "ClusterIP" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
  {{- with $service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $type }}
  ports:
    {{- range .entry.ports }}
    - name: {{ .name }}
      port: {{ $service.port | default .service }}
      targetPort: {{ .name }}
      protocol: TCP
      {{- if and $service.nodePort (ne $type "ClusterIP") }}
      nodePort: {{ $service.nodePort }}
      {{- end }}
    {{- end }}
  selector:
    {{- include "berth.selectorLabels" . | nindent 4 }}
{{- end -}}

{{- /*
Without "entry", for what serves nothing at all. Who connects is not confined: API servers and kubelets have addresses of
nodes.
*/ -}}
{{- define "berth.networkPolicy" -}}
{{- $root := .root -}}
{{- $entry := .entry | default dict -}}
{{- $others := list -}}
{{- range $entry.egress -}}
{{- $address := (include "berth.read" (dict "root" $root "source" .) | fromJson).value -}}
{{- with regexFind "[0-9]+$" $address -}}{{- $others = append $others (int .) -}}{{- end -}}
{{- end -}}
{{- with $root.Values.tracing.endpoint -}}{{- $others = append $others (include "berth.tracingPort" $root | int) -}}{{- end -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "berth.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- if not .entry }}
  ingress: []
  {{- else }}
  ingress:
    - ports:
        {{- range $entry.ports }}
        - {port: {{ .port }}, protocol: TCP}
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
    # The gateway, the daemons of RMD and the collector have addresses of their own.
    - ports:
        {{- range $others | uniq }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
    {{- end }}
{{- end -}}
