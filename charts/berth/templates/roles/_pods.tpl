{{- /* The DaemonSet of a role: (dict "root" $ "role" "rmd-node" "entry" ENTRY-OF-roles.json ["name" NAME]). */ -}}
{{- define "berth.daemonSet" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  revisionHistoryLimit: 5
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 1, maxSurge: 0}
  {{- include "berth.pods" . | trim | nindent 2 }}
{{- end -}}

{{- /* Selector and template of the Pods of a role: (dict "root" $ "role" "webhook" "entry" ENTRY-OF-roles.json). */ -}}
{{- define "berth.pods" -}}
{{- $root := .root -}}
{{- $entry := .entry -}}
{{- $values := index $root.Values .role | default dict -}}
{{- $volumes := fromJsonArray (include "berth.volumes" .) -}}
selector:
  matchLabels:
    {{- include "berth.selectorLabels" . | nindent 4 }}
template:
  metadata:
    labels:
      {{- include "berth.podLabels" . | nindent 6 }}
      {{- with $values.podLabels }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with $values.podAnnotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    serviceAccountName: {{ include "berth.fullname" $root }}-{{ .role }}
    automountServiceAccountToken: true
    enableServiceLinks: false
    {{- if $values.hostNetwork }}
    hostNetwork: true
    dnsPolicy: ClusterFirstWithHostNet
    {{- end }}
    {{- with $root.Values.imagePullSecrets }}
    imagePullSecrets:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with include "berth.priorityClassName" $root }}
    priorityClassName: {{ . | quote }}
    {{- end }}
    # preStop, then what the role takes to drain, and ten seconds for connections, the last Events and spans.
    terminationGracePeriodSeconds: {{ add $root.Values.preStopSeconds (include "berth.grace" (dict "root" $root "grace" $entry.grace)) 10 }}
    securityContext:
      {{- include (ternary "berth.podSecurityContext" "berth.rootSecurityContext" (empty $entry.host)) $root | nindent 6 }}
    containers:
      - name: berth
        image: {{ include "berth.image" $root | quote }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        args:
          {{- $arguments := fromJsonArray (include "berth.arguments" (dict "root" $root "arguments" $entry.arguments)) }}
          {{- $common := list "--health-check-port=8444" (printf "--log-level=%s" $root.Values.logLevel) }}
          {{- range concat (list $entry.name) $arguments $common ($values.extraArgs | default list) }}
          - {{ . | quote }}
          {{- end }}
        {{- with include "berth.env" . }}
        {{- . | nindent 8 }}
        {{- end }}
        ports:
          {{- range $entry.ports }}
          - {name: {{ .name }}, containerPort: {{ .port }}, protocol: TCP}
          {{- end }}
          - {name: health, containerPort: 8444, protocol: TCP}
        # A minute to start; then three misses restart it. What it waits for makes it unready, not restarted.
        startupProbe:
          httpGet: {path: /healthz, port: health}
          periodSeconds: 2
          failureThreshold: 30
        livenessProbe:
          httpGet: {path: /healthz, port: health}
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 3
        readinessProbe:
          httpGet: {path: /readyz, port: health}
          periodSeconds: 5
          timeoutSeconds: 3
          failureThreshold: 2
        {{- with $root.Values.preStopSeconds }}
        lifecycle:
          preStop:
            exec:
              command: [sleep, {{ . | quote }}]
        {{- end }}
        resources:
          {{- toYaml ($values.resources | default dict) | nindent 10 }}
        securityContext:
          {{- include "berth.containerSecurityContext" $root | nindent 10 }}
        volumeMounts:
          - {name: tmp, mountPath: /tmp}
          {{- range $volumes }}
          - {name: {{ .name }}, mountPath: /etc/berth/{{ .name }}, readOnly: true}
          {{- end }}
          {{- range $name, $source := $entry.host }}
          {{- $folder := (include "berth.read" (dict "root" $root "source" $source) | fromJson).value }}
          - {name: {{ $name }}, mountPath: {{ printf "%s/%s" $folder $name | quote }}}
          {{- end }}
    volumes:
      - name: tmp
        emptyDir: {sizeLimit: 64Mi}
      {{- range $volumes }}
      - {{ toJson . }}
      {{- end }}
      {{- range $name, $source := $entry.host }}
      {{- $folder := (include "berth.read" (dict "root" $root "source" $source) | fromJson).value }}
      # The folder and not the socket in it, which is another one after each start of kubelet.
      - name: {{ $name }}
        hostPath: {path: {{ printf "%s/%s" $folder $name | quote }}, type: Directory}
      {{- end }}
    {{- include "berth.scheduling" . | nindent 4 }}
{{- end -}}

{{- /* The volumes of a role, as JSON; each is mounted at /etc/berth/NAME. */ -}}
{{- define "berth.volumes" -}}
{{- $root := .root -}}
{{- $volumes := list -}}
{{- with .entry.tls -}}
{{- $secret := (include "berth.read" (dict "root" $root "source" .) | fromJson).value -}}
{{- $volumes = append $volumes (dict "name" "tls" "secret" (dict "secretName" $secret "defaultMode" 288)) -}}
{{- end -}}
{{- range $name, $template := .entry.volumes -}}
{{- with include $template $root -}}{{- $volumes = append $volumes (fromJson . | merge (dict "name" $name)) -}}{{- end -}}
{{- end -}}
{{- $volumes | toJson -}}
{{- end -}}

{{- define "berth.env" -}}
{{- $root := .root -}}
{{- $env := list -}}
{{- if .entry.namespaceVariable -}}
{{- $env = append $env (dict "name" "NAMESPACE" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.namespace"))) -}}
{{- end -}}
{{- if .entry.nodeVariable -}}
{{- $env = append $env (dict "name" "NODE_NAME" "valueFrom" (dict "fieldRef" (dict "fieldPath" "spec.nodeName"))) -}}
{{- end -}}
{{- with $root.Values.tracing.endpoint -}}
{{- $env = append $env (dict "name" "OTEL_EXPORTER_OTLP_ENDPOINT" "value" .) -}}
{{- end -}}
{{- with concat $env ((index $root.Values .role | default dict).extraEnv | default list) -}}
env:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- define "berth.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10000
runAsGroup: 10000
fsGroup: 10000
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- /* Of a role that uses folders of the node: they belong to root. Its container has no capability. */ -}}
{{- define "berth.rootSecurityContext" -}}
runAsUser: 0
runAsGroup: 0
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "berth.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "berth.scheduling" -}}
{{- $values := index .root.Values .role | default dict -}}
{{- if eq .entry.kind "DaemonSet" }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- else }}
affinity:
  {{- with $values.affinity }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "berth.selectorLabels" . | nindent 14 }}
  {{- end }}
topologySpreadConstraints:
  - topologyKey: topology.kubernetes.io/zone
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "berth.selectorLabels" . | nindent 8 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
