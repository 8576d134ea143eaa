{{- /*
Rights: (dict "root" $ "role" "webhook" "scope" "cluster" | "release" | "system" | "tenants" | "rmd" "rules" (list …)
["annotations" TEXT]).
*/ -}}
{{- define "berth.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ has .scope (list "cluster" "tenants") | ternary "ClusterRole" "Role" }}
metadata:
  {{- include "berth.accessMetadata" . | nindent 2 }}
rules:
  {{- toYaml .rules | nindent 2 }}
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
    namespace: {{ include "berth.namespaceOf" . | quote }}
{{- end -}}

{{- /*
(dict "root" $ "rules" (list …)): those of the rules, and of their names, whose sources are on; as JSON. A source may be a
list of names: a rule with an empty one holds for all.
*/ -}}
{{- define "berth.rules" -}}
{{- $root := .root -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- $names := list -}}
{{- $on := not .names -}}
{{- range .names -}}
{{- if include "berth.isOn" (dict "root" $root "when" .when) -}}
{{- $on = true -}}
{{- $name := .text -}}
{{- if .source -}}{{- $name = (include "berth.read" (dict "root" $root "source" .source) | fromJson).value -}}{{- end -}}
{{- $names = concat $names (kindIs "slice" $name | ternary $name (list $name)) -}}
{{- end -}}
{{- end -}}
{{- if and $on (include "berth.isOn" (dict "root" $root "when" .when)) -}}
{{- if .kinds -}}
{{- $verbs := .verbs -}}
{{- range (include "berth.read" (dict "root" $root "source" .kinds) | fromJson).value -}}
{{- $parts := splitn "." 2 . -}}
{{- $rules = append $rules (dict "apiGroups" (list ($parts._1 | default "")) "resources" (list $parts._0) "verbs" $verbs) -}}
{{- end -}}
{{- else -}}
{{- $rule := pick . "apiGroups" "resources" "verbs" -}}
{{- if $names -}}{{- $_ := set $rule "resourceNames" $names -}}{{- end -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $rules | toJson -}}
{{- end -}}

{{- /* Of a role's Roles those in `universe` and where the daemons of RMD are say so in their names; what is for tenants has the name that the code knows. */ -}}
{{- define "berth.accessName" -}}
{{- if eq .scope "tenants" -}}
{{ .tenantsRole }}
{{- else -}}
{{ include "berth.fullname" .root }}-{{ .role }}{{ has .scope (list "system" "rmd") | ternary (printf "-%s" .scope) "" }}
{{- end -}}
{{- end -}}

{{- define "berth.accessMetadata" -}}
name: {{ include "berth.accessName" . }}
{{- if eq .scope "release" }}
namespace: {{ .root.Release.Namespace | quote }}
{{- else if eq .scope "system" }}
namespace: {{ include "berth.systemNamespace" .root }}
{{- else if eq .scope "rmd" }}
namespace: {{ .root.Values.rmd.namespace | quote }}
{{- end }}
labels:
  {{- include "berth.labels" . | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}
