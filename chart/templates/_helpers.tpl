{{- /* The chart's name, shortened for labels. */ -}}
{{- define "towline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* Name of objects: the release, and the chart unless the release's name contains it. */ -}}
{{- define "towline.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := include "towline.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Labels of every object. */ -}}
{{- define "towline.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "towline.instanceLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: towline
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "towline.instanceLabels" -}}
app.kubernetes.io/name: {{ include "towline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Selector of the server's pods. It must never change, because a Deployment's selector is immutable. */ -}}
{{- define "towline.selectorLabels" -}}
{{ include "towline.instanceLabels" . }}
app.kubernetes.io/component: server
{{- end }}

{{- define "towline.redis.selectorLabels" -}}
{{ include "towline.instanceLabels" . }}
app.kubernetes.io/component: redis
{{- end }}

{{- define "towline.runner.selectorLabels" -}}
{{ include "towline.instanceLabels" . }}
app.kubernetes.io/component: preview-runner
{{- end }}

{{- define "towline.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "towline.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* An image reference of repository, tag and digest, with a registry only if the repository has one. */ -}}
{{- define "towline.image" -}}
{{- $tag := .image.tag | default .defaultTag -}}
{{- if .image.digest }}{{ $tag = regexReplaceAll "@.*" $tag "" }}{{ end -}}
{{- printf "%s%s%s" .image.repository (ternary (printf ":%s" $tag) "" (ne $tag "")) (ternary (printf "@%s" .image.digest) "" (ne .image.digest "")) -}}
{{- end }}
