{{- /* What the server may do with its own login. `towline doctor` asks for the same, right by right: src/doctor/permissions.ts. */ -}}

{{- /* Of what belongs to no namespace: two releases of one name, in two namespaces, are two. */ -}}
{{- define "towline.clusterName" -}}
{{- if eq .Release.Namespace (include "towline.fullname" .) }}
{{- include "towline.fullname" . }}
{{- else }}
{{- printf "%s-%s" .Release.Namespace (include "towline.fullname" .) }}
{{- end }}
{{- end }}

{{- /* The server to the API server. */ -}}
{{- define "towline.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "towline.serviceAccountName" . }}
{{- end }}

{{- define "towline.subjects" -}}
- kind: ServiceAccount
  name: {{ include "towline.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* As JSON: what is in rbac.serviceAccounts without a namespace, and the account of previews that are not confined. */ -}}
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

{{- /* As JSON: namespace → names, of what is in rbac.serviceAccounts with a namespace. */ -}}
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

{{- /* Of deployments that name none: the first account that the server may act as in every namespace. */ -}}
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

{{- /* In every namespace with deployments. */ -}}
{{- define "towline.rules.deployments" -}}
# Its own resources, and those of the older API where the cluster has it. `patch` is for finalizers, and to take requests
# out of annotations; the admission policy holds it to that.
- apiGroups: [gitops.kluctl.io, flux.kluctl.io]
  resources: [kluctldeployments]
  verbs: [get, list, watch, patch]
- apiGroups: [gitops.kluctl.io, flux.kluctl.io]
  resources: [kluctldeployments/status]
  verbs: [patch]
# What deployments of the older API follow.
- apiGroups: [source.toolkit.fluxcd.io]
  resources: [gitrepositories]
  verbs: [get, list, watch]
# A deployment is worked on under a Lease beside it.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
# What it did, for people.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.rbac.readSecrets }}
# Logins and keys that deployments name. Names of their own cannot be known here, so it is all of them.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
{{- end }}

{{- /* Of the accounts in `.names`; all, if `*` is among them. */ -}}
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

{{- /* As JSON, of the accounts in `.names`: those that previews ask the API server as, by tokens of theirs. */ -}}
{{- define "towline.rights.tokens" -}}
{{- $preview := .root.Values.config.preview }}
{{- $account := .root.Values.preview.serviceAccount.name }}
{{- if or (not $preview.enabled) (eq ($preview.isolation | default "required") "off") }}[]
{{- else if $account }}{{ toJson (ternary (list $account) list (has $account .names)) }}
{{- else }}{{ toJson .names }}
{{- end }}
{{- end }}

{{- /* What kluctl of a preview sends is sent with a token of the account that `.names` names, and never with the server's own. */ -}}
{{- define "towline.rules.tokens" -}}
- apiGroups: [""]
  resources: [serviceaccounts/token]
  {{- if not (has "*" .names) }}
  resourceNames: {{ toJson .names }}
  {{- end }}
  verbs: [create]
{{- end }}

{{- /* In the namespace of the results, and nowhere else. */ -}}
{{- define "towline.rules.results" -}}
# Results, as `kluctl gitops` and kluctl's web UI look for them.
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, create, patch, delete]
{{- end }}

{{- /* In the controller's namespace. */ -}}
{{- define "towline.rules.leader" -}}
# The Lease that says whether kluctl's own controller runs.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [5ab5d0f9.kluctl.io]
  verbs: [get, update]
# What became of a changed configuration, for people.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}

{{- define "towline.rules.overrides" -}}
# The keys by which `kluctl gitops` knows who takes the files of a working copy.
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

{{- /* For the whole cluster, as people and groups belong to no namespace; nothing if nobody is named on the page, or may ask for anything. */ -}}
{{- define "towline.rules.people" -}}
{{- with .Values }}
{{- if and (eq .config.ui.actAs "caller") (or .config.ui.proxyHeader .config.ui.oidc.issuer) (include "towline.hasPage" $) }}
# What people may see on the page is asked of the API server; an answer lets nobody do anything.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- $users := .rbac.pageUsers }}
{{- if eq .config.ui.tokenRole "operator" }}{{ $users = append $users "towline:page-token" }}{{ end }}
{{- $groups := list }}
{{- if .rbac.pageUsers }}
{{- range concat .config.ui.operatorGroups .config.ui.viewerGroups | uniq }}
{{- if ne . "*" }}{{ $groups = append $groups (printf "%s%s" ($.Values.config.ui.groupPrefix | default "") .) }}{{ end }}
{{- end }}
{{- end }}
{{- if and $users (eq .config.ui.actAs "caller") (include "towline.hasPage" $) }}
# Whom it acts as for what they ask for on the page.
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
