{{- /* Mount path of the Secrets of git hosts and Redis. */ -}}
{{- define "towline.secretsDir" -}}/etc/towline/secrets{{- end }}

{{- /* Mount path of the page's Secret: token, client secret and proxy secret. */ -}}
{{- define "towline.page.secretDir" -}}/etc/towline/page{{- end }}

{{- /* Mount path of the Secret with the keys of recorded deliveries. */ -}}
{{- define "towline.recording.secretDir" -}}/etc/towline/recording{{- end }}

{{- /* Not empty if the page is enabled. */ -}}
{{- define "towline.hasPage" -}}
{{- with .Values }}{{ if or .page.existingSecret .config.page.proxyHeader .config.page.tokenFile .config.page.oidc.issuer }}yes{{ end }}{{ end }}
{{- end }}

{{- define "towline.redis.fullname" -}}{{ include "towline.fullname" . }}-redis{{- end }}

{{- /* The Secret with the password of the release's own Redis. */ -}}
{{- define "towline.redis.secretName" -}}
{{- .Values.redis.auth.existingSecret | default (include "towline.redis.fullname" .) }}
{{- end }}

{{- /* Mount path of the Secret with the preview runner's token. */ -}}
{{- define "towline.runner.secretDir" -}}/etc/towline/preview-runner{{- end }}

{{- define "towline.runner.fullname" -}}{{ include "towline.fullname" . }}-previews{{- end }}

{{- define "towline.runner.secretName" -}}
{{- .Values.preview.runner.auth.existingSecret | default (include "towline.runner.fullname" .) }}
{{- end }}

{{- define "towline.runner.port" -}}8092{{- end }}

{{- /* As YAML: `.item` with the files below `.dir` that its `keys` are mounted as. */ -}}
{{- define "towline.withSecretFiles" -}}
{{- $item := omit .item "existingSecret" "keys" }}
{{- $dir := .dir }}
{{- range $field, $_ := .item.keys }}
{{- $file := printf "%s/%s" $dir $field }}
{{- /* A list of secrets becomes a list of files: webhookSecrets, webhookSecretFiles. */ -}}
{{- if hasSuffix "s" $field }}
{{- $_ := set $item (printf "%sFiles" (trimSuffix "s" $field)) (list $file) }}
{{- else }}
{{- $_ := set $item (printf "%sFile" $field) $file }}
{{- end }}
{{- end }}
{{- toYaml $item }}
{{- end }}

{{- /* The server's configuration file: `config`, with the keys that the chart sets. */ -}}
{{- define "towline.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $secrets := include "towline.secretsDir" . }}
{{- $redis := deepCopy (get $config "redis" | default dict) }}
{{- if .Values.redis.enabled }}
{{- $_ := set $redis "url" (printf "redis://%s:6379" (include "towline.redis.fullname" .)) }}
{{- $_ := set $redis "passwordFile" (printf "%s/redis/password" $secrets) }}
{{- else }}
{{- with .Values.externalRedis }}
{{- if .urlKey }}{{ $_ := set $redis "urlFile" (printf "%s/redis/url" $secrets) }}{{ else }}{{ $_ := set $redis "url" .url }}{{ end }}
{{- if .passwordKey }}{{ $_ := set $redis "passwordFile" (printf "%s/redis/password" $secrets) }}{{ end }}
{{- if .caKey }}{{ $_ := set $redis "caFile" (printf "%s/redis/ca" $secrets) }}{{ end }}
{{- if .sentinels }}{{ $_ := set $redis "sentinels" .sentinels }}{{ end }}
{{- if .sentinelPasswordKey }}{{ $_ := set $redis "sentinelPasswordFile" (printf "%s/redis/sentinelPassword" $secrets) }}{{ end }}
{{- end }}
{{- end }}
{{- $_ := set $config "redis" $redis }}
{{- $forges := list }}
{{- range .Values.forges }}
{{- $forges = append $forges (include "towline.withSecretFiles" (dict "item" . "dir" (printf "%s/%s" $secrets .id)) | fromYaml) }}
{{- end }}
{{- $_ := set $config "forges" $forges }}
{{- if .Values.notifications.targets }}
{{- $targets := list }}
{{- range .Values.notifications.targets }}
{{- $targets = append $targets (include "towline.withSecretFiles" (dict "item" . "dir" (printf "%s/notifications/%s" $secrets .id)) | fromYaml) }}
{{- end }}
{{- $_ := set $config "notifications" (dict "targets" $targets "routes" .Values.notifications.routes) }}
{{- end }}
{{- $kubernetes := dict "readSecretsAs" (include "towline.readSecretsAs" .) }}
{{- with .Values.rbac.namespaces }}{{ $_ := set $kubernetes "namespaces" . }}{{ end }}
{{- $_ := set $config "kubernetes" (merge $kubernetes (get $config "kubernetes" | default dict)) }}
{{- if .Values.page.existingSecret }}
{{- $dir := include "towline.page.secretDir" . }}
{{- $page := dict }}
{{- if .Values.page.tokenKey }}{{ $_ := set $page "tokenFile" (printf "%s/token" $dir) }}{{ end }}
{{- if .Values.page.oidcSecretKey }}{{ $_ := set $page "oidc" (dict "clientSecretFile" (printf "%s/oidc" $dir)) }}{{ end }}
{{- if .Values.page.proxySecretKey }}{{ $_ := set $page "proxySecretFile" (printf "%s/proxy" $dir) }}{{ end }}
{{- $_ := set $config "page" (merge $page (get $config "page" | default dict)) }}
{{- end }}
{{- if .Values.recording.existingSecret }}
{{- $recording := dict "keyFiles" (list (printf "%s/keys" (include "towline.recording.secretDir" .))) }}
{{- $_ := set $config "recording" (merge $recording (get $config "recording" | default dict)) }}
{{- end }}
{{- with include "towline.defaultServiceAccount" . }}{{ $_ := set $config "defaultServiceAccount" . }}{{ end }}
{{- with .Values.preview.serviceAccount.name }}
{{- $_ := set $config "preview" (merge (dict "serviceAccountName" .) (get $config "preview" | default dict)) }}
{{- end }}
{{- if .Values.preview.runner.enabled }}
{{- $runner := dict "address" (printf "%s:%s" (include "towline.runner.fullname" .) (include "towline.runner.port" .)) "tokenFile" (printf "%s/token" (include "towline.runner.secretDir" .)) }}
{{- $_ := set $config "preview" (merge (dict "runner" $runner) (get $config "preview" | default dict)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* Converts a Go duration to whole seconds. */ -}}
{{- define "towline.seconds" -}}
{{- $zero := toDate "2006-01-02" "2000-01-01" }}
{{- sub (int64 (unixEpoch (mustDateModify . $zero))) (int64 (unixEpoch $zero)) }}
{{- end }}

{{- /* Checks that involve several values; values.schema.json checks each one. */ -}}
{{- define "towline.check" -}}
{{- with .Values }}
{{- if and .admissionPolicy.enabled (semverCompare "<1.30.0-0" $.Capabilities.KubeVersion.Version) }}
{{- fail (printf "admissionPolicy.enabled needs Kubernetes 1.30 or newer, but this cluster is %s: set it to false. Permissions that roles cannot limit are then not limited, see docs/rights.md." $.Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if not .redis.enabled }}
{{- if not (or .externalRedis.url .externalRedis.urlKey) }}
{{- fail "No Redis is configured: set redis.enabled=true to install one, or externalRedis.url (or externalRedis.existingSecret with externalRedis.urlKey) to use your own." }}
{{- end }}
{{- with .externalRedis }}
{{- if and (or .urlKey .passwordKey .caKey .sentinelPasswordKey) (not .existingSecret) }}
{{- fail "externalRedis.urlKey, passwordKey, caKey and sentinelPasswordKey are keys of a Secret: set externalRedis.existingSecret to its name." }}
{{- end }}
{{- end }}
{{- else if or .externalRedis.url .externalRedis.existingSecret }}
{{- fail "externalRedis and redis.enabled are both set: set redis.enabled=false to use your own Redis." }}
{{- end }}
{{- if and .preview.runner.enabled (eq .config.preview.isolation "off") }}
{{- fail "preview.runner.enabled requires isolation: set config.preview.isolation to required or auto." }}
{{- end }}
{{- $own := list "serviceAccountName" "imagePullSecrets" "priorityClassName" "enableServiceLinks" "terminationGracePeriodSeconds" "securityContext" "containers" "volumes" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- range $key, $_ := .extraPodSpec }}
{{- if has $key $own }}{{ fail (printf "extraPodSpec: %s is set by the chart: use the value for it instead." $key) }}{{ end }}
{{- end }}
{{- range $part, $service := .service }}
{{- range $key, $_ := $service.extraSpec }}
{{- if has $key (list "type" "selector" "ports") }}{{ fail (printf "service.%s.extraSpec: %s is set by the chart." $part $key) }}{{ end }}
{{- end }}
{{- end }}
{{- range $part, $port := dict "webhooks" .config.webhooks.port "admin" .config.admin.port "page" .config.page.port }}
{{- if eq (int $port) 0 }}{{ fail (printf "config.%s.port is 0, but a Service needs a fixed port: set one." $part) }}{{ end }}
{{- end }}
{{- if and .ingress.enabled (not .ingress.hosts) }}
{{- fail "ingress.enabled requires ingress.hosts: the host names that git hosts send webhooks to." }}
{{- end }}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) }}
{{- fail "httpRoute.enabled requires httpRoute.parentRefs: the gateways that receive webhooks." }}
{{- end }}
{{- if and (eq .config.page.actAs "server") (ne .rbac.tier "cluster-admin") }}
{{- fail "config.page.actAs server requires rbac.tier cluster-admin: the server's account has no permission to send requests. Use caller, and list users in rbac.pageUsers." }}
{{- end }}
{{- if and .config.defaultServiceAccount .rbac.create (ne .rbac.tier "cluster-admin") }}
{{- $name := .config.defaultServiceAccount }}
{{- $may := false }}
{{- range .rbac.serviceAccounts }}{{ if or (eq . "*") (eq . $name) (hasSuffix (printf "/%s" $name) .) }}{{ $may = true }}{{ end }}{{ end }}
{{- if not $may }}{{ fail (printf "config.defaultServiceAccount: the server may not impersonate %s: add it to rbac.serviceAccounts." $name) }}{{ end }}
{{- end }}
{{- if and .rbac.aggregate.edit (eq .rbac.tier "cluster-admin") (not .config.defaultServiceAccount) }}
{{- fail "rbac.aggregate.edit: with rbac.tier cluster-admin, deployments without serviceAccountName are deployed as cluster-admin, so every user who may edit one namespace would be cluster-admin. Set config.defaultServiceAccount, or grant access to KluctlDeployments with your own roles." }}
{{- end }}
{{- if and .page.existingSecret (not .page.tokenKey) (not .page.oidcSecretKey) (not .page.proxySecretKey) }}
{{- fail "page.existingSecret is set without a key: set page.tokenKey, page.oidcSecretKey or page.proxySecretKey." }}
{{- end }}
{{- if and .config.recording.enabled (not .recording.existingSecret) }}
{{- fail "config.recording.enabled needs a key: create a Secret with one, and set recording.existingSecret to its name." }}
{{- end }}
{{- $ids := dict }}
{{- range .forges }}
{{- if hasKey $ids .id }}{{ fail (printf "forges: the id %s is used twice." .id) }}{{ end }}
{{- $_ := set $ids .id true }}
{{- if and .keys (not .existingSecret) }}{{ fail (printf "forges: %s has keys but no existingSecret: set it to the name of their Secret." .id) }}{{ end }}
{{- if and .existingSecret (not .keys) }}{{ fail (printf "forges: %s has an existingSecret but no keys: set the keys to read, such as keys.webhookSecrets." .id) }}{{ end }}
{{- if and (ne .webhooks false) (not (or .insecureAllowUnsigned (dig "webhookSecrets" "" (.keys | default dict)))) }}
{{- fail (printf "forges: %s needs a webhook secret: create a Secret, and set existingSecret to its name and keys.webhookSecrets to its key." .id) }}
{{- end }}
{{- if has .id (list "redis" "notifications") }}{{ fail (printf "forges: the id %s is reserved: choose another." .id) }}{{ end }}
{{- end }}
{{- range .notifications.targets }}
{{- if and .keys (not .existingSecret) }}{{ fail (printf "notifications.targets: %s has keys but no existingSecret: set it to the name of their Secret." .id) }}{{ end }}
{{- if and .existingSecret (not .keys) }}{{ fail (printf "notifications.targets: %s has an existingSecret but no keys: set the keys to read, such as keys.url." .id) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Keys of Redis's Secret to mount; empty if there is no Secret. */ -}}
{{- define "towline.redis.secretItems" -}}
{{- if .Values.redis.enabled }}
- key: {{ .Values.redis.auth.passwordKey }}
  path: password
{{- else }}
{{- with .Values.externalRedis }}
{{- range $path, $key := dict "password" .passwordKey "url" .urlKey "ca" .caKey "sentinelPassword" .sentinelPasswordKey }}
{{- with $key }}
- key: {{ . }}
  path: {{ $path }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
