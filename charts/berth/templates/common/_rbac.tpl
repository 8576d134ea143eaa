{{- /* Bindings: (dict "root" $ "role" "webhook" "scope" "cluster" | "release" | "system"). */ -}}

{{- define "berth.roleHead" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .scope | eq "cluster" | ternary "ClusterRole" "Role" }}
metadata:
  {{- include "berth.accessMetadata" . | nindent 2 }}
{{- end -}}

{{- define "berth.binding" -}}
{{- $root := .root -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .scope | eq "cluster" | ternary "ClusterRoleBinding" "RoleBinding" }}
metadata:
  {{- include "berth.accessMetadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .scope | eq "cluster" | ternary "ClusterRole" "Role" }}
  name: {{ include "berth.accessName" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "berth.fullname" $root }}-{{ .role }}
    namespace: {{ $root.Release.Namespace | quote }}
{{- end -}}

{{- /* Of a role's two Roles the one in `universe` says so in its name. */ -}}
{{- define "berth.accessName" -}}
{{ include "berth.fullname" .root }}-{{ .role }}{{ eq .scope "system" | ternary "-system" "" }}
{{- end -}}

{{- define "berth.accessMetadata" -}}
name: {{ include "berth.accessName" . }}
{{- if eq .scope "release" }}
namespace: {{ .root.Release.Namespace | quote }}
{{- else if eq .scope "system" }}
namespace: {{ include "berth.systemNamespace" .root }}
{{- end }}
labels:
  {{- include "berth.labels" . | nindent 2 }}
{{- end -}}
