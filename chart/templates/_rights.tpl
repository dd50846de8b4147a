{{- /* Permissions of the server's service account. `towline doctor` checks the same ones: src/doctor/permissions.ts. */ -}}

{{- /* Name of cluster-scoped objects, unique for releases of the same name in different namespaces. */ -}}
{{- define "towline.clusterName" -}}
{{- if eq .Release.Namespace (include "towline.fullname" .) }}
{{- include "towline.fullname" . }}
{{- else }}
{{- printf "%s-%s" .Release.Namespace (include "towline.fullname" .) }}
{{- end }}
{{- end }}

{{- /* User name of the server's service account. */ -}}
{{- define "towline.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "towline.serviceAccountName" . }}
{{- end }}

{{- define "towline.subjects" -}}
- kind: ServiceAccount
  name: {{ include "towline.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* As JSON: entries of rbac.serviceAccounts without a namespace, and the service account of previews without isolation. */ -}}
{{- define "towline.rights.names" -}}
{{- $names := list }}
{{- range .Values.rbac.serviceAccounts }}
{{- if not (contains "/" .) }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- if eq (.Values.config.preview.isolation | default "required") "off" }}
{{- with .Values.preview.serviceAccount.name }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- toJson ($names | uniq) }}
{{- end }}

{{- /* As JSON: namespace → names, of entries of rbac.serviceAccounts with a namespace. */ -}}
{{- define "towline.rights.placed" -}}
{{- $placed := dict }}
{{- range .Values.rbac.serviceAccounts }}
{{- if contains "/" . }}
{{- $parts := splitn "/" 2 . }}
{{- $_ := set $placed $parts._0 (append (get $placed $parts._0 | default list) $parts._1) }}
{{- end }}
{{- end }}
{{- toJson $placed }}
{{- end }}

{{- /* Default for deployments without serviceAccountName: the first account that may be impersonated in every namespace. */ -}}
{{- define "towline.defaultServiceAccount" -}}
{{- if .Values.config.defaultServiceAccount }}
{{- .Values.config.defaultServiceAccount }}
{{- else if ne .Values.rbac.tier "cluster-admin" }}
{{- $first := "" }}
{{- range .Values.rbac.serviceAccounts }}
{{- if and (eq $first "") (not (contains "/" .)) (ne . "*") }}{{ $first = . }}{{ end }}
{{- end }}
{{- $first }}
{{- end }}
{{- end }}

{{- /* `server` or `account`. */ -}}
{{- define "towline.readSecretsAs" -}}
{{- ternary "server" "account" (or .Values.rbac.readSecrets (eq .Values.rbac.tier "cluster-admin")) }}
{{- end }}

{{- /* Rules for every namespace with deployments. */ -}}
{{- define "towline.rules.deployments" -}}
# Its own resources, and those of the legacy API. `patch` is for finalizers and for removing requests from annotations; the
# admission policy limits it to that.
- apiGroups: [gitops.kluctl.io, flux.kluctl.io]
  resources: [kluctldeployments]
  verbs: [get, list, watch, patch]
- apiGroups: [gitops.kluctl.io, flux.kluctl.io]
  resources: [kluctldeployments/status]
  verbs: [patch]
# Sources of deployments of the legacy API.
- apiGroups: [source.toolkit.fluxcd.io]
  resources: [gitrepositories]
  verbs: [get, list, watch]
{{- if .Values.config.flux.trigger }}
# Makes Flux fetch, by an annotation; the admission policy limits it to that.
- apiGroups: [source.toolkit.fluxcd.io]
  resources: [gitrepositories]
  verbs: [patch]
{{- end }}
{{- if or .Values.config.flux.statuses .Values.config.flux.previews }}
# Reports and previews what Flux applies; nothing of it is changed.
- apiGroups: [kustomize.toolkit.fluxcd.io]
  resources: [kustomizations]
  verbs: [get, list, watch]
- apiGroups: [helm.toolkit.fluxcd.io]
  resources: [helmreleases]
  verbs: [get, list, watch]
- apiGroups: [source.toolkit.fluxcd.io]
  resources: [helmcharts]
  verbs: [get, list, watch]
{{- end }}
# Each reconciliation holds a Lease in the deployment's namespace.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
# Events of deployments.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.rbac.readSecrets }}
# Credentials and keys of deployments. All Secrets, because their names are unknown here.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
{{- end }}

{{- /* Rules for the accounts in `.names`; all accounts if it contains `*`. */ -}}
{{- define "towline.rules.accounts" -}}
{{- $all := has "*" .names -}}
- apiGroups: [""]
  resources: [serviceaccounts]
  {{- if not $all }}
  resourceNames: {{ toJson .names }}
  {{- end }}
  verbs: [impersonate{{ if .awsRoles }}, get{{ end }}]
{{- if .awsRoles }}
- apiGroups: [""]
  resources: [serviceaccounts/token]
  {{- if not $all }}
  resourceNames: {{ toJson .names }}
  {{- end }}
  verbs: [create]
{{- end }}
{{- end }}

{{- /* As JSON: the accounts in `.names` that previews use, for which the server creates tokens. */ -}}
{{- define "towline.rights.tokens" -}}
{{- $preview := .root.Values.config.preview }}
{{- $account := .root.Values.preview.serviceAccount.name }}
{{- if or (not $preview.enabled) (eq ($preview.isolation | default "required") "off") }}[]
{{- else if $account }}{{ toJson (ternary (list $account) list (has $account .names)) }}
{{- else }}{{ toJson .names }}
{{- end }}
{{- end }}

{{- /* Requests of a preview's kluctl use a token of an account in `.names`, never the server's own. */ -}}
{{- define "towline.rules.tokens" -}}
- apiGroups: [""]
  resources: [serviceaccounts/token]
  {{- if not (has "*" .names) }}
  resourceNames: {{ toJson .names }}
  {{- end }}
  verbs: [create]
{{- end }}

{{- /* Rules for the namespace of the results only. */ -}}
{{- define "towline.rules.results" -}}
# Results, which `kluctl gitops` and kluctl's web UI read.
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, create, patch, delete]
{{- end }}

{{- /* Rules for the controller's namespace. */ -}}
{{- define "towline.rules.leader" -}}
# The leader election Lease, shared with kluctl's own controller.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [5ab5d0f9.kluctl.io]
  verbs: [get, update]
# Events of configuration changes.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}

{{- define "towline.rules.notifications" -}}
# What each target of notifications was sent. Names contain the target's id and, as in src/kube/sent-notifications.ts, a hash of the
# watched namespaces.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
{{- $suffix := "" }}
{{- with .Values.rbac.namespaces }}{{ $suffix = printf "-%s" (sortAlpha . | join "," | sha256sum | trunc 8) }}{{ end }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames:
  {{- range .Values.notifications.targets }}
  - towline-notified-{{ .id }}{{ $suffix }}
  {{- end }}
  verbs: [get, update]
{{- end }}

{{- define "towline.rules.overrides" -}}
# Keys of source overrides, which authenticate the server to `kluctl gitops`.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [kluctl-source-override-secret]
  verbs: [get, update]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [kluctl-source-override-ca]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [secrets, configmaps]
  verbs: [create]
{{- end }}

{{- /* Cluster-wide rules for users of the page, because users and groups have no namespace; empty if they are not needed. */ -}}
{{- define "towline.rules.people" -}}
{{- with .Values }}
{{- if and (eq .config.page.actAs "caller") (or .config.page.proxyHeader .config.page.oidc.issuer) (include "towline.hasPage" $) }}
# Access reviews for what users may see on the page. They grant nothing by themselves.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- $users := .rbac.pageUsers }}
{{- if eq .config.page.tokenRole "operator" }}{{ $users = append $users "towline:page-token" }}{{ end }}
{{- $groups := list }}
{{- if .rbac.pageUsers }}
{{- range concat .config.page.operatorGroups .config.page.viewerGroups | uniq }}
{{- if ne . "*" }}{{ $groups = append $groups (printf "%s%s" ($.Values.config.page.groupPrefix | default "") .) }}{{ end }}
{{- end }}
{{- end }}
{{- if and $users (eq .config.page.actAs "caller") (include "towline.hasPage" $) }}
# Impersonation of users for requests on the page.
- apiGroups: [""]
  resources: [users]
  {{- if not (has "*" $users) }}
  resourceNames: {{ toJson $users }}
  {{- end }}
  verbs: [impersonate]
{{- with $groups }}
- apiGroups: [""]
  resources: [groups]
  resourceNames: {{ toJson . }}
  verbs: [impersonate]
{{- end }}
{{- end }}
{{- end }}
{{- end }}
