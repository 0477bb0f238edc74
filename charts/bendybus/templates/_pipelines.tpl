{{- /* Of one data pipeline: (dict "root" $ "pipeline" …). */ -}}
{{- define "bendybus.pipeline.name" -}}
{{- /* 52 is what a CronJob's name may have. What is cut keeps a mark of its own. */ -}}
{{- $name := printf "%s-pipeline-%s" (include "bendybus.fullname" .root) .pipeline.name }}
{{- if gt (len $name) 52 }}
{{- printf "%s-%s" ($name | trunc 43 | trimSuffix "-") ($name | sha256sum | trunc 8) }}
{{- else }}
{{- $name }}
{{- end }}
{{- end }}

{{- define "bendybus.pipeline.namespace" -}}
{{- default .root.Release.Namespace .pipeline.namespace }}
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

{{- /* Of its executors, which no controller of the chart's may take for its own. */ -}}
{{- define "bendybus.pipeline.executorSelector" -}}
app.kubernetes.io/part-of: bendybus
app.kubernetes.io/instance: {{ .root.Release.Name }}
bendybus.io/executor-of: {{ .pipeline.name }}
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
      key: {{ default "primaryConnectionString" .pipeline.secretKey }}
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

{{- /* Where its pods may run, and with whose credentials their image is pulled. */ -}}
{{- define "bendybus.pipeline.placement" -}}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pipeline.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pipeline.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "bendybus.pipeline.security" -}}
{{ include "bendybus.podUser" .root }}
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

{{- /* Whether it serves metrics: a stream that runs on. */ -}}
{{- define "bendybus.pipeline.serves" -}}
{{- if and (include "bendybus.pipeline.streams" .) (not .pipeline.schedule) }}true{{ end }}
{{- end }}

{{- /* Whether its executors write to the checkpoint as well. */ -}}
{{- define "bendybus.pipeline.sharesCheckpoint" -}}
{{- if and (eq .pipeline.job "sessions") .pipeline.executors }}true{{ end }}
{{- end }}

{{- /* What the schema cannot refuse. */ -}}
{{- define "bendybus.pipeline.check" -}}
{{- $pipeline := .pipeline }}
{{- if and (include "bendybus.pipeline.streams" .) (not $pipeline.checkpoint) }}
{{- fail (printf "pipelines: %s: checkpoint is needed by %s: it holds the position; set checkpoint.size or checkpoint.existingClaim." $pipeline.name $pipeline.job) }}
{{- end }}
{{- if and $pipeline.checkpoint (not (has $pipeline.job (list "capture" "sessions" "dlq redrive"))) }}
{{- fail (printf "pipelines: %s: checkpoint: %s has none; remove it." $pipeline.name $pipeline.job) }}
{{- end }}
{{- if and (not (include "bendybus.pipeline.streams" .)) (not $pipeline.schedule) }}
{{- fail (printf "pipelines: %s: schedule is needed by %s, which ends; without one it would be started again and again." $pipeline.name $pipeline.job) }}
{{- end }}
{{- if not $pipeline.schedule }}
{{- range $name := list "timeZone" "deadlineSeconds" }}
{{- if get $pipeline $name }}
{{- fail (printf "pipelines: %s: %s: is of a schedule; set schedule, or remove it." $pipeline.name $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- with $pipeline.checkpoint }}
{{- range $name := list "size" "storageClassName" "accessMode" }}
{{- if and $pipeline.checkpoint.existingClaim (get $pipeline.checkpoint $name) }}
{{- fail (printf "pipelines: %s: checkpoint.%s: is of a new claim; remove it, or existingClaim." $pipeline.name $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if include "bendybus.pipeline.sharesCheckpoint" . }}
{{- if and (not $pipeline.checkpoint.existingClaim) (ne (default "" $pipeline.checkpoint.accessMode) "ReadWriteMany") }}
{{- fail (printf "pipelines: %s: checkpoint.accessMode must be ReadWriteMany: executors of sessions write their state there; or remove executors." $pipeline.name) }}
{{- end }}
{{- end }}
{{- range $option, $value := dict "--checkpoint" "checkpoint" "--master" "cores or executors" "--executors" "executors.instances" "--now" "schedule" "--metrics-port" "nothing, it is 8084" "--alive-file" "aliveSeconds" }}
{{- range $pipeline.args }}
{{- if eq (index (splitList "=" .) 0) $option }}
{{- fail (printf "pipelines: %s: args: %s is set by the chart; set %s instead." $pipeline.name $option $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "bendybus.pipeline.pod" -}}
{{- $spark := .root.Values.spark }}
{{- $executors := default dict .pipeline.executors }}
{{- $streams := include "bendybus.pipeline.streams" . -}}
metadata:
  labels:
    {{- include "bendybus.pipeline.labels" . | nindent 4 }}
  {{- with .pipeline.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "bendybus.pipeline.name" . }}
  automountServiceAccountToken: {{ if $executors.instances }}true{{ else }}false{{ end }}
  restartPolicy: {{ if .pipeline.schedule }}Never{{ else }}Always{{ end }}
  terminationGracePeriodSeconds: 60
  {{- include "bendybus.pipeline.placement" . | nindent 2 }}
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
        - --conf=spark.kubernetes.container.image.pullPolicy={{ $spark.image.pullPolicy }}
        - --conf=spark.executor.memory={{ default "512m" $executors.memory }}
        - --conf=spark.executor.cores={{ default 1 $executors.cores }}
        - --conf=spark.kubernetes.executor.request.cores={{ default "100m" $executors.requestCores }}
        {{- else }}
        - --master=local[{{ default 2 .pipeline.cores }}]
        {{- end }}
        - --conf=spark.driver.memory={{ default "512m" .pipeline.driverMemory }}
        {{- if include "bendybus.pipeline.serves" . }}
        - --metrics-port=8084
        - --alive-file=/tmp/alive
        {{- else if $streams }}
        - --now
        {{- end }}
      env:
        {{- include "bendybus.pipeline.environment" . | nindent 8 }}
        # Spark's own page shows settings and ends jobs: it is for kubectl port-forward only.
        - name: SPARK_LOCAL_IP
          value: 127.0.0.1
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
      {{- if include "bendybus.pipeline.serves" . }}
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
