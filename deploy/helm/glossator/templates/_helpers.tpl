{{- define "glossator.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "glossator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "glossator.labels" -}}
{{ include "glossator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "glossator.configMap" -}}
{{ .Values.existingConfigMap | default (include "glossator.name" .) }}
{{- end }}

{{/* The Secret with the token of the admin API. */}}
{{- define "glossator.adminSecret" -}}
{{ .Values.admin.existingSecret | default (printf "%s-admin" (include "glossator.name" . | trunc 53)) }}
{{- end }}

{{- define "glossator.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "glossator.name" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/* The host names of the Service, and additional ones. */}}
{{- define "glossator.allowedHosts" -}}
{{- $name := include "glossator.name" . }}
{{- $names := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.%s" $name .Release.Namespace .Values.clusterDomain) "localhost" "127.0.0.1" }}
{{- concat $names .Values.allowedHosts | uniq | join "," }}
{{- end }}

{{/* The container alone, as a sidecar in the chart of a legacy server. */}}
{{- define "glossator.container" -}}
name: glossator
image: {{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [run, --config, /etc/glossator]
ports:
  - { name: http, containerPort: 8080 }
  - { name: admin, containerPort: {{ .Values.admin.port }} }
env:
  # The pod's own address, so that the Service and the kubelet reach it. These override the files.
  - { name: GLOSSATOR__SERVER__LISTEN, value: "0.0.0.0:8080" }
  - { name: GLOSSATOR__ADMIN__LISTEN, value: "0.0.0.0:{{ .Values.admin.port }}" }
  - name: GLOSSATOR__ADMIN__TOKEN
    valueFrom:
      secretKeyRef: { name: {{ include "glossator.adminSecret" . | trim | quote }}, key: {{ .Values.admin.key | quote }} }
  - { name: GLOSSATOR__SERVER__SHUTDOWN_DELAY, value: "{{ .Values.shutdownDelaySeconds }}s" }
  # Other `Host` values are rejected, or any web page in a browser could use it (DNS rebinding).
  - { name: GLOSSATOR__SERVER__ALLOWED_HOSTS, value: {{ include "glossator.allowedHosts" . | quote }} }
  {{- if .Values.sessionSecret.existingSecret }}
  - name: GLOSSATOR__SERVER__SECRET_KEY
    valueFrom:
      secretKeyRef: { name: {{ .Values.sessionSecret.existingSecret | quote }}, key: {{ .Values.sessionSecret.key | quote }} }
  # Address of this pod for others, which forward clients' input responses to it.
  - { name: POD_IP, valueFrom: { fieldRef: { fieldPath: status.podIP } } }
  - { name: GLOSSATOR__SERVER__ADVERTISE_URL, value: "http://$(POD_IP):8080" }
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
startupProbe:
  httpGet: { path: /readyz, port: admin }
  {{- toYaml .Values.probes.startup | nindent 2 }}
readinessProbe:
  httpGet: { path: /readyz, port: admin }
  {{- toYaml .Values.probes.readiness | nindent 2 }}
livenessProbe:
  httpGet: { path: /healthz, port: admin }
  {{- toYaml .Values.probes.liveness | nindent 2 }}
{{- if .Values.preStopSeconds }}
lifecycle:
  preStop: { sleep: { seconds: {{ .Values.preStopSeconds }} } }
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
  seccompProfile: { type: RuntimeDefault }
volumeMounts:
  # The folder, not a single file, so that ConfigMap changes are detected.
  - { name: glossator, mountPath: /etc/glossator, readOnly: true }
  {{- range .Values.secretMounts }}
  - { name: {{ printf "secret-%s" .name | quote }}, mountPath: {{ printf "/etc/glossator-secrets/%s" .name | quote }}, readOnly: true }
  {{- end }}
  {{- if .Values.sharedState.existingSecret }}
  - { name: store, mountPath: /etc/glossator-store, readOnly: true }
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The volumes of the container. */}}
{{- define "glossator.volumes" -}}
- name: glossator
  configMap: { name: {{ include "glossator.configMap" . }} }
{{- range .Values.secretMounts }}
- name: {{ printf "secret-%s" .name | quote }}
  secret: { secretName: {{ .secretName | quote }}, defaultMode: 0440 }
{{- end }}
{{- if .Values.sharedState.existingSecret }}
- name: store
  secret:
    secretName: {{ .Values.sharedState.existingSecret | quote }}
    defaultMode: 0440
    items: [{ key: {{ .Values.sharedState.key | quote }}, path: password }]
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
