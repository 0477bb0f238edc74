{{- define "bendybus.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "bendybus.fullname" -}}
{{- $name := include "bendybus.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Of objects that belong to the cluster: installations for some namespaces may be many. */ -}}
{{- define "bendybus.clusterName" -}}
{{- if .Values.watchNamespaces }}
{{- printf "%s-%s" (include "bendybus.fullname" .) .Release.Namespace | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- include "bendybus.fullname" . }}
{{- end }}
{{- end }}

{{- define "bendybus.operator" -}}
{{ include "bendybus.fullname" . }}-operator
{{- end }}

{{- define "bendybus.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "bendybus.operator" .) .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.name }}
{{- .Values.serviceAccount.name }}
{{- else if .Values.rbac.create }}
{{- fail "serviceAccount.name: needed with serviceAccount.create=false. Without it the operator's rights would go to the ServiceAccount default, and so to every pod of the namespace." }}
{{- else }}
{{- "default" }}
{{- end }}
{{- end }}

{{- define "bendybus.image" -}}
{{- if eq .Values.image.tag "latest" }}
{{- fail "image.tag: must not be latest, since nodes would run different versions; set a version, or a digest." }}
{{- end }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "bendybus.selector" -}}
app.kubernetes.io/name: bendybus
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "bendybus.labels" -}}
{{ include "bendybus.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* The issuer that was named for all buses; none: each bus has one of its own. */ -}}
{{- define "bendybus.issuerKind" -}}
{{- if and .Values.certManager.enabled .Values.certManager.issuerRef.name }}{{ .Values.certManager.issuerRef.kind }}{{ end }}
{{- end }}

{{- define "bendybus.issuerName" -}}
{{- if .Values.certManager.enabled }}{{ .Values.certManager.issuerRef.name }}{{ end }}
{{- end }}

{{- define "bendybus.testNamespace" -}}
{{- if .Values.test.namespace }}
{{- .Values.test.namespace }}
{{- else if .Values.watchNamespaces }}
{{- first .Values.watchNamespaces }}
{{- else }}
{{- .Release.Namespace }}
{{- end }}
{{- end }}

{{- /* Removed when the test succeeded, or before the next one; a pod that failed stays to be read. */ -}}
{{- define "bendybus.testHook" -}}
helm.sh/hook: test
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- /* The user of all pods; nothing where the cluster chooses it. */ -}}
{{- define "bendybus.podUser" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ . | int64 }}
runAsGroup: {{ . | int64 }}
fsGroup: {{ . | int64 }}
{{- end }}
{{- end }}
