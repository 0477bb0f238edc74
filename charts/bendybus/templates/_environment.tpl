{{- /* Every field of bendybus.operator.settings.Settings, none left to its default. */ -}}
{{- define "bendybus.environment" -}}
- name: BENDYBUS_OPERATOR_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: BENDYBUS_OPERATOR_IDENTITY
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: BENDYBUS_OPERATOR_WATCH_NAMESPACES
  value: {{ join "," .Values.watchNamespaces | quote }}
- name: BENDYBUS_OPERATOR_IMAGE
  value: {{ include "bendybus.image" . | quote }}
- name: BENDYBUS_OPERATOR_IMAGE_PULL_POLICY
  value: {{ .Values.image.pullPolicy }}
- name: BENDYBUS_OPERATOR_IMAGE_PULL_SECRETS
  value: {{ range $index, $secret := .Values.busImagePullSecrets }}{{ if $index }},{{ end }}{{ $secret.name }}{{ else }}""{{ end }}
- name: BENDYBUS_OPERATOR_RUN_AS_USER
  value: {{ .Values.runAsUser | default 0 | int64 | quote }}
- name: BENDYBUS_OPERATOR_SERVICE
  value: {{ include "bendybus.operator" . }}
- name: BENDYBUS_OPERATOR_WEBHOOK_CONFIGURATION
  value: {{ if and .Values.webhooks.enabled (not .Values.certManager.enabled) }}{{ include "bendybus.clusterName" . }}{{ else }}""{{ end }}
- name: BENDYBUS_OPERATOR_WEBHOOK_PORT
  value: "9443"
- name: BENDYBUS_OPERATOR_WEBHOOK_CLIENT_CA
  value: {{ if .Values.webhooks.clientCAConfigMap }}/etc/bendybus/webhook-client-ca/ca.crt{{ else }}""{{ end }}
- name: BENDYBUS_OPERATOR_PROBE_PORT
  value: "8080"
- name: BENDYBUS_OPERATOR_METRICS_PORT
  value: "8081"
- name: BENDYBUS_OPERATOR_PEERING
  value: {{ .Values.peering.name | quote }}
- name: BENDYBUS_OPERATOR_TLS_DIRECTORY
  value: {{ if .Values.certManager.enabled }}/etc/bendybus/webhook-tls{{ else }}/tmp/bendybus-tls{{ end }}
- name: BENDYBUS_OPERATOR_CLIENT_TLS_DIRECTORY
  value: /etc/bendybus/tls
- name: BENDYBUS_OPERATOR_CERT_MANAGER
  value: {{ .Values.certManager.enabled | quote }}
- name: BENDYBUS_OPERATOR_ISSUER_KIND
  value: {{ include "bendybus.issuerKind" . | quote }}
- name: BENDYBUS_OPERATOR_ISSUER_NAME
  value: {{ include "bendybus.issuerName" . | quote }}
- name: BENDYBUS_OPERATOR_METRICS_FROM
  value: {{ .Values.networkPolicy.metricsFrom | toJson | quote }}
- name: BENDYBUS_OPERATOR_CERTIFICATE_DAYS
  value: {{ .Values.operator.certificateDays | quote }}
- name: BENDYBUS_OPERATOR_RESYNC_S
  value: {{ .Values.operator.resyncSeconds | quote }}
- name: BENDYBUS_OPERATOR_COUNTS_EVERY_S
  value: {{ .Values.operator.countsEverySeconds | quote }}
- name: BENDYBUS_OPERATOR_CALL_TIMEOUT_S
  value: {{ .Values.operator.callTimeoutSeconds | quote }}
- name: BENDYBUS_OPERATOR_STATUS_PATCHES_PER_S
  value: {{ .Values.operator.statusPatchesPerSecond | quote }}
- name: BENDYBUS_OPERATOR_URGENT_PATCHES_PER_S
  value: {{ .Values.operator.urgentPatchesPerSecond | quote }}
- name: BENDYBUS_OPERATOR_WORKER_MEMORY_MB
  value: {{ .Values.operator.workerMemoryMB | quote }}
- name: BENDYBUS_OPERATOR_LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- end }}
