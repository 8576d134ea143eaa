{{- /*
One Deployment for every role:
(dict "root" $ "role" "webhook" "args" (list …) "ports" (list (dict "name" "https" "containerPort" 8443))
      "volumes" (list …) "mounts" (list …) "grace" 18 "namespace" true)
`grace`: seconds from SIGTERM to the end of a role that drains. `namespace`: tell it the release's namespace.
*/ -}}
{{- define "berth.deployment" -}}
{{- $root := .root -}}
{{- $values := index $root.Values .role -}}
{{- $onHost := $values.hostNetwork | default false -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
spec:
  replicas: {{ $values.replicas }}
  revisionHistoryLimit: 5
  strategy:
    type: RollingUpdate
    {{- if $onHost }}
    # A Pod more may find no node whose ports are free.
    rollingUpdate: {maxUnavailable: 1, maxSurge: 0}
    {{- else }}
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
    {{- end }}
  selector:
    matchLabels:
      {{- include "berth.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "berth.podLabels" . | nindent 8 }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "berth.fullname" $root }}-{{ .role }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      {{- if $onHost }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "berth.priorityClassName" $root }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      # preStop, then what the role takes to drain, and ten seconds for connections, the last Events and spans.
      terminationGracePeriodSeconds: {{ add $root.Values.preStopSeconds .grace 10 }}
      securityContext:
        {{- include "berth.podSecurityContext" $root | nindent 8 }}
      containers:
        - name: berth
          image: {{ include "berth.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - {{ .role | eq "certificates" | ternary "certs" .role }}
            {{- if eq .role "certificates" }}
            - keep
            {{- end }}
            {{- range concat .args (list "--health-check-port=8444" (printf "--log-level=%s" $root.Values.logLevel)) $values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          {{- with include "berth.env" . }}
          {{- . | nindent 10 }}
          {{- end }}
          ports:
            {{- range .ports }}
            - {name: {{ .name }}, containerPort: {{ .containerPort }}, protocol: TCP}
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
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- include "berth.containerSecurityContext" $root | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- range .mounts }}
            - {{ toJson . }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {sizeLimit: 64Mi}
        {{- range .volumes }}
        - {{ toJson . }}
        {{- end }}
      {{- include "berth.scheduling" . | nindent 6 }}
{{- end -}}

{{- /* The flags that all roles of an infra cluster need alike. */ -}}
{{- define "berth.placementFlags" -}}
{{- $flags := list
  (printf "--host-label=%s" .Values.placement.hostLabel)
  (printf "--tenant-node-label=%s" .Values.placement.tenantNodeLabel)
  (printf "--admin-names=%s" (join "," .Values.placement.adminNames)) -}}
{{- $allowed := list -}}
{{- range $kind, $names := .Values.placement.tenantAllow -}}
{{- range $names -}}{{- $allowed = append $allowed (printf "%s=%s" $kind .) -}}{{- end -}}
{{- end -}}
{{- append $flags (printf "--tenant-allow=%s" (join "," $allowed)) | toJson -}}
{{- end -}}

{{- define "berth.env" -}}
{{- $root := .root -}}
{{- $env := list -}}
{{- if .namespace -}}
{{- $env = append $env (dict "name" "NAMESPACE" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.namespace"))) -}}
{{- end -}}
{{- with $root.Values.tracing.endpoint -}}
{{- $env = append $env (dict "name" "OTEL_EXPORTER_OTLP_ENDPOINT" "value" .) -}}
{{- end -}}
{{- with concat $env (index $root.Values .role).extraEnv -}}
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

{{- define "berth.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "berth.scheduling" -}}
{{- $values := index .root.Values .role -}}
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
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
