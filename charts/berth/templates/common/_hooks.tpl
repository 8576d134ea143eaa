{{- /* What Helm runs beside a release: (dict "hook" "pre-delete" "weight" -30). */ -}}
{{- define "berth.hook" -}}
helm.sh/hook: {{ .hook }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- /* The ServiceAccount of a hook, its rights in the cluster, and their binding: (dict "root" $ "role" "unregister" "hook" "pre-delete" "rules" (list …)). */ -}}
{{- define "berth.hookAccess" -}}
{{- $first := include "berth.hook" (dict "hook" .hook "weight" -30) -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "berth.metadata" . | nindent 2 }}
  annotations:
    {{- $first | nindent 4 }}
automountServiceAccountToken: false
---
{{ include "berth.role" (merge (dict "scope" "cluster" "annotations" $first) .) }}
---
{{ include "berth.binding" (merge (dict "scope" "cluster" "annotations" (include "berth.hook" (dict "hook" .hook "weight" -20))) .) }}
{{- end }}

{{- /* The spec of a hook's Pod: (dict "root" $ "role" "unregister" "args" (list …)). It runs where the webhook may run. */ -}}
{{- define "berth.hookPod" -}}
{{- $root := .root -}}
restartPolicy: Never
serviceAccountName: {{ include "berth.fullname" $root }}-{{ .role }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "berth.priorityClassName" $root }}
# On a full cluster, too, it comes before Pods of less weight.
priorityClassName: {{ . | quote }}
{{- end }}
securityContext:
  {{- include "berth.podSecurityContext" $root | nindent 2 }}
containers:
  - name: berth
    image: {{ include "berth.image" $root | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args: {{ toJson .args }}
    resources:
      requests: {cpu: 50m, memory: 96Mi}
      limits: {memory: 256Mi}
    securityContext:
      {{- include "berth.containerSecurityContext" $root | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: 16Mi}
{{- with $root.Values.webhook.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.webhook.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
