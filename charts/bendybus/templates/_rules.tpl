{{- /* What the operator may do, in the namespaces that it serves: exactly what it does. */ -}}
{{- define "bendybus.namespacedRules" -}}
# The manifests. Kopf may patch what it watches.
- apiGroups: [bendybus.io]
  resources: [busnamespaces, queues, topics, subscriptions]
  verbs: [get, list, watch, patch]
- apiGroups: [bendybus.io]
  resources: [busnamespaces/status, queues/status, topics/status, subscriptions/status]
  verbs: [patch]
# What runs a bus. Applying server-side needs patch, and create for what is not there.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch, delete]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
# Certificates, and keys of applications. Watched by label; Kubernetes cannot limit a right to one.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
# Volumes grow, are adopted, and with deletionPolicy Delete are deleted. StatefulSets make them.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, patch, delete]
# Why pods of a bus do not run.
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.certManager.enabled }}
- apiGroups: [cert-manager.io]
  resources: [certificates, issuers]
  verbs: [create, patch]
{{- end }}
{{- if .Values.watchNamespaces }}
- apiGroups: [kopf.dev]
  resources: [kopfpeerings]
  verbs: [get, list, watch, patch]
{{- end }}
{{- end }}

{{- /* What it needs of the whole cluster, whichever namespaces it serves. */ -}}
{{- define "bendybus.clusterRules" -}}
# Kopf looks which kinds and namespaces there are; the operator, whether one is being deleted.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
{{- if and .Values.webhooks.enabled (not .Values.certManager.enabled) }}
# Its own authority is told to the API server.
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: [{{ include "bendybus.clusterName" . }}]
  verbs: [get, patch]
{{- end }}
{{- if not .Values.watchNamespaces }}
- apiGroups: [kopf.dev]
  resources: [clusterkopfpeerings]
  verbs: [get, list, watch, patch]
{{- end }}
{{- end }}
