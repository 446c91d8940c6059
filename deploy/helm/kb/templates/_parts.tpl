{{/* Names: of the release, so that two may stand in one namespace. */}}
{{- define "kb.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "kb.selector" -}}
app.kubernetes.io/name: {{ include "kb.name" . }}
{{- end }}

{{- define "kb.labels" -}}
{{ include "kb.selector" . }}
app.kubernetes.io/part-of: kb
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "kb.podLabels" -}}
{{ include "kb.selector" . }}
app.kubernetes.io/part-of: kb
{{- with .Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kb.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* kb.toml: what the values say, with the hosts that the server is known by. */}}
{{- define "kb.toml" -}}
{{- $name := include "kb.name" . -}}
{{- $space := .Release.Namespace -}}
{{- $hosts := list "localhost" $name (printf "%s.%s" $name $space) (printf "%s.%s.svc" $name $space) (printf "%s.%s.svc.cluster.local" $name $space) -}}
{{- if .Values.ingress.enabled }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end -}}
{{- $hosts = concat $hosts .Values.allowedHosts -}}
{{- $own := dict "serve" (dict "allowed_hosts" $hosts "drain_seconds" (float64 .Values.serve.drainSeconds)) -}}
{{- mergeOverwrite (deepCopy $own) .Values.config | toToml -}}
{{- end }}

{{/* What every pod has. */}}
{{- define "kb.pod" -}}
serviceAccountName: {{ include "kb.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What every container has. */}}
{{- define "kb.container" -}}
name: kb
image: {{ include "kb.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Secrets, by reference. */}}
{{- define "kb.secrets" -}}
{{- $secret := .Values.secretName -}}
- name: KB_LEDGER_URL
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: ledger-url}}
- name: KB_INDEX_TOKEN
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: index-token, optional: true}}
- name: KB_OPENAI_API_KEY
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: openai-api-key, optional: true}}
- name: KB_CHAT__API_KEY
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: chat-api-key, optional: true}}
- name: KB_SEARCH__API_KEY
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: search-api-key, optional: true}}
- name: KB_ASK__GRADE_CACHE
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: grade-cache-url, optional: true}}
{{- end }}

{{- define "kb.mounts" -}}
- {name: config, mountPath: /etc/kb, readOnly: true}
- {name: data, mountPath: /var/lib/kb}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "kb.volumes" -}}
- name: config
  configMap: {name: {{ include "kb.name" . }}-config}
- name: data
  emptyDir: {sizeLimit: 1Gi}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- end }}

{{- define "kb.documents" -}}
{{ .Values.documents.existingClaim | default (printf "%s-documents" (include "kb.name" .)) }}
{{- end }}
