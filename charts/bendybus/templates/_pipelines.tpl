{{- /* Of one data pipeline: (dict "root" $ "pipeline" …). */ -}}
{{- define "bendybus.pipeline.name" -}}
{{- printf "%s-pipeline-%s" (include "bendybus.fullname" .root) .pipeline.name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "bendybus.pipeline.selector" -}}
app.kubernetes.io/name: bendybus
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: pipeline
bendybus.io/pipeline: {{ .pipeline.name }}
{{- end }}

{{- define "bendybus.pipeline.labels" -}}
{{ include "bendybus.pipeline.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "bendybus.spark.image" -}}
{{- $image := .Values.spark.image }}
{{- if eq $image.tag "latest" }}
{{- fail "spark.image.tag: must not be latest, since driver and executors would run different versions; set a version, or a digest." }}
{{- end }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{- /* What driver and executors have in common: how they reach the bus, and where they may write. */ -}}
{{- define "bendybus.pipeline.environment" -}}
- name: BENDYBUS_CONNECTION_STRING
  valueFrom:
    secretKeyRef:
      name: {{ .pipeline.secret }}
      key: primaryConnectionString
- name: BENDYBUS_CA_FILE
  value: /etc/bendybus/ca.crt
{{- with .pipeline.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "bendybus.pipeline.mounts" -}}
- name: trust
  mountPath: /etc/bendybus
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- with .pipeline.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "bendybus.pipeline.volumes" -}}
- name: trust
  secret:
    secretName: {{ .pipeline.secret }}
    items:
      - key: ca.crt
        path: ca.crt
- name: tmp
  emptyDir: {}
{{- with .pipeline.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "bendybus.pipeline.security" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "bendybus.pipeline.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Whether it is a streaming query, which has a checkpoint, metrics and a probe. */ -}}
{{- define "bendybus.pipeline.streams" -}}
{{- if has .pipeline.job (list "capture" "sessions") }}true{{ end }}
{{- end }}

{{- define "bendybus.pipeline.checkpoint" -}}
{{- if .pipeline.checkpoint }}true{{ end }}
{{- end }}

{{- define "bendybus.pipeline.pod" -}}
{{- $spark := .root.Values.spark }}
{{- $executors := default dict .pipeline.executors }}
{{- $streams := include "bendybus.pipeline.streams" . }}
{{- if and $streams (not .pipeline.checkpoint) }}
{{- fail (printf "pipelines: %s: checkpoint is needed by %s: it holds the position; set checkpoint.size or checkpoint.existingClaim." .pipeline.name .pipeline.job) }}
{{- end }}
{{- if and (not $streams) (not .pipeline.schedule) }}
{{- fail (printf "pipelines: %s: schedule is needed by %s, which ends; without one it would be started again and again." .pipeline.name .pipeline.job) }}
{{- end -}}
metadata:
  labels:
    {{- include "bendybus.pipeline.labels" . | nindent 4 }}
spec:
  serviceAccountName: {{ include "bendybus.pipeline.name" . }}
  automountServiceAccountToken: {{ if $executors.instances }}true{{ else }}false{{ end }}
  enableServiceLinks: false
  restartPolicy: {{ if .pipeline.schedule }}Never{{ else }}Always{{ end }}
  terminationGracePeriodSeconds: 60
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .pipeline.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .pipeline.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "bendybus.pipeline.security" . | nindent 4 }}
  containers:
    - name: pipeline
      image: {{ include "bendybus.spark.image" .root | quote }}
      imagePullPolicy: {{ $spark.image.pullPolicy }}
      args:
        - bendybus
        - pipeline
        {{- range splitList " " .pipeline.job }}
        - {{ . }}
        {{- end }}
        {{- range .pipeline.args }}
        - {{ . | quote }}
        {{- end }}
        {{- if .pipeline.checkpoint }}
        - --checkpoint=/var/lib/bendybus/checkpoint
        {{- end }}
        {{- if $executors.instances }}
        - --master=k8s
        - --executors={{ $executors.instances }}
        - --conf=spark.kubernetes.executor.podTemplateFile=/etc/bendybus-executor/executor.yaml
        - --conf=spark.executor.memory={{ default "512m" $executors.memory }}
        - --conf=spark.executor.cores={{ default 1 $executors.cores }}
        - --conf=spark.kubernetes.executor.request.cores={{ default "100m" $executors.requestCores }}
        {{- else }}
        - --master=local[{{ default 2 .pipeline.cores }}]
        {{- end }}
        - --conf=spark.driver.memory={{ default "512m" .pipeline.driverMemory }}
        {{- if $streams }}
        {{- if .pipeline.schedule }}
        - --now
        {{- else }}
        - --metrics-port=8084
        - --alive-file=/tmp/alive
        {{- end }}
        {{- end }}
      env:
        {{- include "bendybus.pipeline.environment" . | nindent 8 }}
        {{- if $executors.instances }}
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        - name: BENDYBUS_SPARK_IMAGE
          value: {{ include "bendybus.spark.image" .root | quote }}
        {{- end }}
      {{- if and $streams (not .pipeline.schedule) }}
      ports:
        - name: metrics
          containerPort: 8084
      # A query that looks for messages touches the file, also when there are none.
      startupProbe:
        exec:
          command: [test, -e, /tmp/alive]
        periodSeconds: 5
        failureThreshold: 60
      livenessProbe:
        exec:
          command: [python3, -m, bendybus.spark.alive, /tmp/alive, {{ default 600 .pipeline.aliveSeconds | quote }}]
        periodSeconds: 60
        timeoutSeconds: 15
      {{- end }}
      securityContext:
        {{- include "bendybus.pipeline.containerSecurity" . | nindent 8 }}
      resources:
        {{- toYaml (default $spark.resources .pipeline.resources) | nindent 8 }}
      volumeMounts:
        {{- include "bendybus.pipeline.mounts" . | nindent 8 }}
        {{- if .pipeline.checkpoint }}
        - name: checkpoint
          mountPath: /var/lib/bendybus
        {{- end }}
        {{- if $executors.instances }}
        - name: executor
          mountPath: /etc/bendybus-executor
          readOnly: true
        {{- end }}
  volumes:
    {{- include "bendybus.pipeline.volumes" . | nindent 4 }}
    {{- if .pipeline.checkpoint }}
    - name: checkpoint
      persistentVolumeClaim:
        claimName: {{ default (include "bendybus.pipeline.name" .) .pipeline.checkpoint.existingClaim }}
    {{- end }}
    {{- if $executors.instances }}
    - name: executor
      configMap:
        name: {{ include "bendybus.pipeline.name" . }}
    {{- end }}
{{- end }}
