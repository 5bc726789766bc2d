{{/* Names are cut at 52 characters. Almost all suffixes have at most 11, and names of Services and pods have at most 63. */}}
{{- define "promo-intake.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The selector of pods. Takes (dict "root" $ "component" "worker"). It can never change, so nothing is added to it. */}}
{{- define "promo-intake.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Takes the same, with "more" for labels before commonLabels. Keys of the chart take precedence. */}}
{{- define "promo-intake.labels" -}}
{{- $ours := include "promo-intake.selector" . | fromYaml -}}
{{- $_ := set $ours "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $ours "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $ours "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- merge $ours (default dict .more) (default dict .root.Values.commonLabels) | toYaml -}}
{{- end -}}

{{- define "promo-intake.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "promo-intake.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "promo-intake.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* Jobs run before the service account of the release exists. */}}
{{- define "promo-intake.jobServiceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
default
{{- else -}}
{{ include "promo-intake.serviceAccountName" . }}
{{- end -}}
{{- end -}}

{{/* The port of health and metrics. Numbers of YAML are floats here. */}}
{{- define "promo-intake.port" -}}
{{ int .Values.settings.HTTP_PORT }}
{{- end -}}

{{/* A release from before these values does not have them (--reuse-values). */}}
{{- define "promo-intake.webhookPort" -}}
{{ int (default 8081 .Values.settings.WEBHOOK_PORT) }}
{{- end -}}

{{/* The values of the webhook, as YAML. Values that are null are absent. */}}
{{- define "promo-intake.webhook" -}}
{{- merge (dict) (default dict .Values.webhook) (dict "enabled" false "settings" dict "secrets" dict "files" dict "ingress" dict "service" dict "podDisruptionBudget" dict) | toYaml -}}
{{- end -}}

{{/* The same for the console. */}}
{{- define "promo-intake.console" -}}
{{- merge (dict) (default dict .Values.console) (dict "enabled" false "settings" dict "secrets" dict "files" dict "ingress" dict "service" dict) | toYaml -}}
{{- end -}}

{{/* The same for the rollups. */}}
{{- define "promo-intake.rollups" -}}
{{- merge (dict) (default dict .Values.rollups) (dict "enabled" false "settings" dict "secrets" dict "files" dict) | toYaml -}}
{{- end -}}

{{/* The same for the pseudonyms. */}}
{{- define "promo-intake.pseudonyms" -}}
{{- merge (dict) (default dict .Values.pseudonyms) (dict "enabled" false "settings" dict "secrets" dict "files" dict) | toYaml -}}
{{- end -}}

{{/* The same for the promotions. */}}
{{- define "promo-intake.promotions" -}}
{{- merge (dict) (default dict .Values.promotions) (dict "enabled" false "settings" dict "secrets" dict "files" dict) | toYaml -}}
{{- end -}}

{{/* The same for the completions. */}}
{{- define "promo-intake.completions" -}}
{{- merge (dict) (default dict .Values.completions) (dict "enabled" false "settings" dict "secrets" dict "files" dict) | toYaml -}}
{{- end -}}

{{- define "promo-intake.consolePort" -}}
{{ int (default 8083 .Values.settings.CONSOLE_PORT) }}
{{- end -}}

{{- define "promo-intake.consolePods" -}}
{{ include "promo-intake.fullname" . | trunc 50 | trimSuffix "-" }}-console-pods
{{- end -}}

{{/* The components that alerts are about. */}}
{{- define "promo-intake.watched" -}}
{{- $watched := include "promo-intake.components" . | fromYamlArray -}}
{{- if (include "promo-intake.rollups" . | fromYaml).enabled }}{{ $watched = append $watched "rollups" }}{{ end -}}
{{- if (include "promo-intake.pseudonyms" . | fromYaml).enabled }}{{ $watched = append $watched "pseudonyms" }}{{ end -}}
{{- if (include "promo-intake.promotions" . | fromYaml).enabled }}{{ $watched = append $watched "promotions" }}{{ end -}}
{{- if (include "promo-intake.completions" . | fromYaml).enabled }}{{ $watched = append $watched "completions" }}{{ end -}}
{{- $watched | toYaml -}}
{{- end -}}

{{/* The components that serve, with the console, which no alert is about. */}}
{{- define "promo-intake.served" -}}
{{- $served := include "promo-intake.watched" . | fromYamlArray -}}
{{- if (include "promo-intake.console" . | fromYaml).enabled }}{{ $served = append $served "console" }}{{ end -}}
{{- $served | toYaml -}}
{{- end -}}

{{/* The components that receive events, as a list in YAML. */}}
{{- define "promo-intake.components" -}}
{{- $components := list -}}
{{- if (include "promo-intake.webhook" . | fromYaml).enabled }}{{ $components = append $components "webhook" }}{{ end -}}
{{/* A release from before this value does not have it (--reuse-values). */}}
{{- if ne (toString .Values.worker.enabled) "false" }}{{ $components = append $components "worker" }}{{ end -}}
{{- $components | toYaml -}}
{{- end -}}

{{/* True if there are workers, else nothing. */}}
{{- define "promo-intake.hasWorkers" -}}
{{- if has "worker" (include "promo-intake.components" . | fromYamlArray) }}true{{ end -}}
{{- end -}}

{{/* Two names of the webhook are longer than all others. */}}
{{- define "promo-intake.webhookPods" -}}
{{ include "promo-intake.fullname" . | trunc 50 | trimSuffix "-" }}-webhook-pods
{{- end -}}

{{/* Kubernetes adds 11 characters to the name of a CronJob, and allows 63. */}}
{{- define "promo-intake.retentionName" -}}
{{ include "promo-intake.fullname" . | trunc 42 | trimSuffix "-" }}-retention
{{- end -}}

{{/*
The selector of metrics of this release, which replaces SELECTOR in files/. Kubernetes cuts the first part of the name of a pod at 58
characters.
*/}}
{{- define "promo-intake.metricSelector" -}}
{{- $begins := list -}}
{{- range $component := include "promo-intake.watched" . | fromYamlArray }}{{ $begins = append $begins (printf "%s-%s-" (include "promo-intake.fullname" $) $component | trunc 58) }}{{ end -}}
{{- printf "namespace=%q,pod=~%q" .Release.Namespace (printf (ternary "(%s).*" "%s.*" (gt (len $begins) 1)) (join "|" $begins)) -}}
{{- end -}}

{{/*
The configuration of the container of a component, as YAML. Workers have everything except settings of the webhook, of the console and of completions. These, the rollups, the pseudonyms and the promotions have the
settings that they read; `own` has the ones that differ from the workers. Takes (dict "values" .Values "component" "worker" "own" …).
*/}}
{{- define "promo-intake.configuration" -}}
{{/* Values that are null are absent. */}}
{{- $usual := merge (dict) .values (dict "settings" dict "secrets" dict "files" dict) -}}
{{- $own := merge (dict) (default dict .own) (dict "settings" dict "secrets" dict "files" dict) -}}
{{- $values := dict -}}
{{- range $map := list "settings" "secrets" "files" }}{{ $_ := set $values $map (mergeOverwrite (deepCopy (index $usual $map)) (deepCopy (index $own $map))) }}{{ end -}}
{{/* A secret address may have a password, and a second one is refused. Each mechanism has its own secret. */}}
{{- $replaced := list -}}
{{- if $own.secrets.DATABASE_URL }}{{ $_ := unset $values.settings "DATABASE_URL" }}{{ $replaced = append $replaced "DATABASE_PASSWORD" }}{{ end -}}
{{- if $own.settings.DATABASE_URL }}{{ $_ := unset $values.secrets "DATABASE_URL" }}{{ end -}}
{{- if or $own.settings.KAFKA_SASL_MECHANISM (not (hasPrefix "SASL_" (default "SASL_" $own.settings.KAFKA_SECURITY_PROTOCOL))) }}{{ $replaced = concat $replaced (list "KAFKA_SASL_PASSWORD" "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET") }}{{ end -}}
{{- range $name := $replaced }}{{ if not (hasKey $own.secrets $name) }}{{ $_ := unset $values.secrets $name }}{{ end }}{{ end -}}
{{- $publishes := $values.settings.VERDICT_TOPIC -}}
{{- $component := .component -}}
{{- $given := dict -}}
{{- range $map := list "settings" "secrets" "files" -}}
{{- $taken := dict -}}
{{- range $name, $value := index $values $map -}}
{{- $isOfWebhook := or (hasPrefix "WEBHOOK_" $name) (hasPrefix "DATABASE_" $name) (hasPrefix "OTEL_" $name) (hasPrefix "REJECT_" $name) (has $name (list "HTTP_PORT" "LIVENESS_HEARTBEAT" "LOG_LEVEL" "SHUTDOWN_SECONDS" "VERDICT_TOPIC" "NODE_EXTRA_CA_CERTS")) (and $publishes (hasPrefix "KAFKA_" $name) (not (has $name (list "KAFKA_GROUP_ID" "KAFKA_TOPICS" "KAFKA_DEAD_MEMBER_WATCH")))) -}}
{{- $isOfConsole := or (hasPrefix "CONSOLE_" $name) (hasPrefix "DATABASE_" $name) (has $name (list "HTTP_PORT" "LIVENESS_HEARTBEAT" "LOG_LEVEL" "SHUTDOWN_SECONDS" "NODE_EXTRA_CA_CERTS")) -}}
{{- $isOfRollups := or (hasPrefix "DATABASE_" $name) (has $name (list "HTTP_PORT" "LIVENESS_HEARTBEAT" "LIVENESS_SECONDS" "LOG_LEVEL" "SHUTDOWN_SECONDS" "NODE_EXTRA_CA_CERTS")) -}}
{{- $isOfCompletions := or (eq $name "COMPLETION_TOPIC") $isOfRollups (and (hasPrefix "KAFKA_" $name) (not (has $name (list "KAFKA_GROUP_ID" "KAFKA_TOPICS" "KAFKA_DEAD_MEMBER_WATCH")))) -}}
{{- $isOf := dict "completions" $isOfCompletions "webhook" $isOfWebhook "console" $isOfConsole "rollups" $isOfRollups "promotions" $isOfRollups "pseudonyms" (or $isOfRollups (hasPrefix "PSEUDONYM_" $name)) "worker" (not (or (hasPrefix "WEBHOOK_" $name) (hasPrefix "CONSOLE_" $name) (hasPrefix "COMPLETION_" $name))) -}}
{{- if get $isOf $component }}{{ $_ := set $taken $name $value }}{{ end -}}
{{- end -}}
{{- $_ := set $given $map $taken -}}
{{- end -}}
{{- $given | toYaml -}}
{{- end -}}

{{/*
The configuration of a container. Takes and returns (dict "settings" … "secrets" … "files" …).
"promo-intake.jobConfiguration" is the one of a job, as YAML: DATABASE_ settings and none of Kafka. Takes (dict "values" .Values "own" …),
where `own` has the same three keys for its role: the owner of the tables, or the janitor.
*/}}
{{- define "promo-intake.jobConfiguration" -}}
{{/* Values that are null are absent. */}}
{{- $own := merge (dict) .own (dict "settings" dict "secrets" dict "files" dict) -}}
{{- $usual := merge (dict) .values (dict "settings" dict "secrets" dict "files" dict) -}}
{{- $settings := dict -}}
{{- range $name, $value := mergeOverwrite (deepCopy $usual.settings) $own.settings -}}
{{- if hasPrefix "DATABASE_" $name }}{{ $_ := set $settings $name $value }}{{ end -}}
{{- end -}}
{{- if $own.secrets.DATABASE_URL }}{{ $_ := unset $settings "DATABASE_URL" }}{{ end -}}
{{- $secrets := dict -}}
{{- range $name, $value := ternary $own.secrets $usual.secrets (gt (len $own.secrets) 0) -}}
{{- if hasPrefix "DATABASE_" $name }}{{ $_ := set $secrets $name $value }}{{ end -}}
{{- end -}}
{{- if $own.settings.DATABASE_URL }}{{ $_ := unset $secrets "DATABASE_URL" }}{{ end -}}
{{- $files := dict -}}
{{- range $name, $value := ternary $own.files $usual.files (gt (len $own.files) 0) -}}
{{- if or (hasPrefix "DATABASE_" $name) (eq $name "NODE_EXTRA_CA_CERTS") }}{{ $_ := set $files $name $value }}{{ end -}}
{{- end -}}
{{- dict "settings" $settings "secrets" $secrets "files" $files | toYaml -}}
{{- end -}}

{{/* Environment. Takes (dict "root" $ "configuration" …). */}}
{{- define "promo-intake.env" -}}
{{- range $name, $value := .configuration.settings }}
{{- if ne (toString $value) "" }}
- name: {{ $name }}
  value: {{ ternary (toString (int64 $value)) (toString $value) (kindIs "float64" $value) | quote }}
{{- end }}
{{- end }}
{{- range $name, $_ := .configuration.secrets }}
- name: {{ $name }}_FILE
  value: /etc/promo-intake/{{ $name }}
{{- end }}
{{- range $name, $_ := .configuration.files }}
- name: {{ $name }}
  value: /etc/promo-intake/{{ $name }}
{{- end }}
{{- with .root.Values.pod.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Secrets and files in one volume, as a whole directory: a file that is mounted by itself is never updated. */}}
{{- define "promo-intake.volumes" -}}
{{- $given := mergeOverwrite (deepCopy .configuration.secrets) .configuration.files -}}
{{- if $given }}
- name: configuration
  projected:
    defaultMode: 0440
    sources:
      {{- range $name, $source := $given }}
      {{- if $source.configMap }}
      - configMap:
          name: {{ $source.configMap | quote }}
      {{- else }}
      - secret:
          name: {{ $source.secret | quote }}
      {{- end }}
          items: [{key: {{ $source.key | quote }}, path: {{ $name }}}]
      {{- end }}
{{- end }}
{{- with .root.Values.pod.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "promo-intake.volumeMounts" -}}
{{- if or .configuration.secrets .configuration.files }}
- {name: configuration, mountPath: /etc/promo-intake, readOnly: true}
{{- end }}
{{- with .root.Values.pod.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The liveness file of a worker or of the webhook. A release from before this value does not have it (--reuse-values). */}}
{{- define "promo-intake.heartbeat" -}}
{{ default "/dev/shm/promo-intake-live" .Values.settings.LIVENESS_HEARTBEAT }}
{{- end -}}

{{/*
How Kubernetes checks that a worker or the webhook is alive: by a file in the pod, out of reach from outside. The process sets its time ahead
once a second, and the time of /proc/self is the present. The command needs neither Node nor a shell. Each pod has a writable /dev/shm in
memory: with an own volume, kubectl drain would refuse the pod without --delete-emptydir-data.
*/}}
{{- define "promo-intake.livenessCheck" -}}
exec:
  command: [/usr/bin/test, {{ include "promo-intake.heartbeat" .root | quote }}, -nt, /proc/self]
{{- end -}}

{{/* The common part of all containers. */}}
{{- define "promo-intake.container" -}}
image: {{ include "promo-intake.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* The common part of all pods, except the service account. Workers and webhook have their own affinity. Takes (dict "root" $ "component" "worker"). */}}
{{- define "promo-intake.podSpec" -}}
{{- $affinity := deepCopy (default dict .root.Values.pod.affinity) -}}
{{- if has .component (list "worker" "webhook" "console" "rollups" "pseudonyms" "promotions" "completions") }}{{ $affinity = mergeOverwrite $affinity (deepCopy (default dict (default dict (index .root.Values .component)).affinity)) }}{{ end -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml .root.Values.pod.securityContext | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pod.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .root.Values.pod.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pod.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "promo-intake.podMetadata" -}}
labels:
  # No version of the chart: a new chart by itself replaces no pod.
  {{- include "promo-intake.selector" . | nindent 2 }}
  {{- with merge (dict) .root.Values.pod.labels .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.pod.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Checks that the schema cannot make, all at once. */}}
{{- define "promo-intake.validate" -}}
{{- $faults := list -}}
{{- $fullname := include "promo-intake.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $fullname) }}{{ $faults = append $faults (printf "objects would be named %s, which is no name of a Service: a name begins with a letter, ends with a letter or digit, and has only a-z, 0-9 and - in it; set fullnameOverride, or give the release another name" $fullname) }}{{ end -}}
{{- with .Values -}}
{{/* Values that are null are absent. */}}
{{- $nothing := dict "settings" dict "secrets" dict "grant" dict -}}
{{- $migration := merge (dict) .migration $nothing -}}
{{- $retention := merge (dict) .retention $nothing -}}
{{- $webhook := include "promo-intake.webhook" $ | fromYaml -}}
{{- $hasWorkers := include "promo-intake.hasWorkers" $ -}}
{{- if not (or $hasWorkers $webhook.enabled) }}{{ $faults = append $faults "worker.enabled is false, and webhook.enabled is not true: nothing would receive events; enable one of them" }}{{ end -}}
{{- if and .autoscaling.enabled (not $hasWorkers) }}{{ $faults = append $faults "autoscaling.enabled is true, and worker.enabled is false: there are no workers to scale; disable it" }}{{ end -}}
{{- if and (or $hasWorkers .settings.VERDICT_TOPIC) (not (or .settings.KAFKA_BROKERS (and (not $hasWorkers) $webhook.settings.KAFKA_BROKERS))) }}{{ $faults = append $faults "settings.KAFKA_BROKERS is missing: set it to the brokers, as host:port, comma-separated" }}{{ end -}}
{{- range $name, $example := dict "VERDICT_TOPIC" "promo.verdict.v1" "COMPLETION_TOPIC" "promo.completion.v1" -}}
{{- $topic := default "" (index $.Values.settings $name) -}}
{{- $parts := splitList "{operator}" $topic -}}
{{- $made := join "x" $parts -}}
{{- $isName := and (le (len $parts) 2) (regexMatch "^[a-zA-Z0-9._-]{1,249}$" $made) (not (has $made (list "." ".."))) -}}
{{- if and $topic (not $isName) }}{{ $faults = append $faults (printf "settings.%s is %s, which is neither a Kafka topic name nor one with {operator} in it, once: name a topic, or a pattern such as %s.{operator}" $name (quote $topic) $example) }}{{ end -}}
{{- end -}}
{{- $secrets := default dict .secrets -}}
{{- if not (or .settings.DATABASE_URL $secrets.DATABASE_URL) }}{{ $faults = append $faults "secrets.DATABASE_URL is missing: set it to {secret: NAME, key: KEY} of a Secret that holds the address of Postgres, or set settings.DATABASE_URL to one without a password" }}{{ end -}}
{{- if and .settings.DATABASE_URL $secrets.DATABASE_URL }}{{ $faults = append $faults "settings.DATABASE_URL and secrets.DATABASE_URL are both set: remove one of them" }}{{ end -}}
{{- $protocol := default "" .settings.KAFKA_SECURITY_PROTOCOL -}}
{{- $mechanism := default "" .settings.KAFKA_SASL_MECHANISM -}}
{{- if and $hasWorkers (hasPrefix "SASL" $protocol) (not $mechanism) }}{{ $faults = append $faults (printf "settings.KAFKA_SASL_MECHANISM is missing: settings.KAFKA_SECURITY_PROTOCOL is %s; set it, for example to SCRAM-SHA-512" $protocol) }}
{{- else if and $hasWorkers (hasPrefix "SASL" $protocol) -}}
{{- $isToken := eq $mechanism "OAUTHBEARER" -}}
{{- range $isToken | ternary (list "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL" "KAFKA_SASL_OAUTHBEARER_CLIENT_ID") (list "KAFKA_SASL_USERNAME") -}}
{{- if not (index $.Values.settings .) }}{{ $faults = append $faults (printf "settings.%s is missing: settings.KAFKA_SASL_MECHANISM is %s, which needs it; set it" . $mechanism) }}{{ end -}}
{{- end -}}
{{- $secret := $isToken | ternary "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET" "KAFKA_SASL_PASSWORD" -}}
{{- if not (index $secrets $secret) }}{{ $faults = append $faults (printf "secrets.%s is missing: settings.KAFKA_SASL_MECHANISM is %s, which needs it; set it to {secret: NAME, key: KEY} of a Secret that holds it" $secret $mechanism) }}{{ end -}}
{{- end -}}
{{- range $name, $is := dict "migration" (or $migration.enabled .reference.data .reference.existing .promotionsDocument.data .promotionsDocument.existing) "retention" $retention.enabled -}}
{{- $own := merge (dict) (index $.Values $name) (dict "settings" dict "secrets" dict) -}}
{{- $configuration := include "promo-intake.jobConfiguration" (dict "values" $.Values "own" $own) | fromYaml -}}
{{- if and $own.settings.DATABASE_URL $own.secrets.DATABASE_URL }}{{ $faults = append $faults (printf "%s.settings.DATABASE_URL and %s.secrets.DATABASE_URL are both set: remove one of them" $name $name) }}
{{- else if and $is $own.secrets (not (or $configuration.settings.DATABASE_URL $configuration.secrets.DATABASE_URL)) }}{{ $faults = append $faults (printf "%s.secrets.DATABASE_URL is missing: %s.secrets replaces the secrets of the workers; set it, or %s.settings.DATABASE_URL" $name $name $name) }}{{ end -}}
{{- end -}}
{{- if and $retention.enabled $migration.grant.writer (not (or $retention.settings.DATABASE_URL $retention.secrets.DATABASE_URL)) }}{{ $faults = append $faults "retention.secrets.DATABASE_URL is missing: retention would run as the workers' role, which cannot drop months because migration.grant.writer limits it; set it, or retention.settings.DATABASE_URL, to the address with the janitor's role" }}{{ end -}}
{{- if and $migration.enabled $migration.grant.writer (not (or $migration.settings.DATABASE_URL $migration.secrets.DATABASE_URL)) }}{{ $faults = append $faults "migration.secrets.DATABASE_URL is missing: the migrations would run as the workers' role, which then owns the tables and cannot be limited to migration.grant.writer; set it, or migration.settings.DATABASE_URL, to the address with the owner's role" }}{{ end -}}
{{- if and (not $migration.enabled) (compact (values $migration.grant)) }}{{ $faults = append $faults "migration.grant is set, and migration.enabled is false: these roles would not get their permissions; enable it, or remove migration.grant and run promo-intake grant yourself" }}{{ end -}}
{{- if and $webhook.enabled (not $secrets.WEBHOOK_SECRETS) }}{{ $faults = append $faults "secrets.WEBHOOK_SECRETS is missing: set it to {secret: NAME, key: KEY} of a Secret that holds the secrets of the connections, or disable webhook" }}{{ end -}}
{{- if and $webhook.enabled (eq (include "promo-intake.webhookPort" $) (include "promo-intake.port" $)) }}{{ $faults = append $faults "settings.WEBHOOK_PORT is the same as settings.HTTP_PORT: set one of them to another port" }}{{ end -}}
{{- if and $webhook.settings.DATABASE_URL $webhook.secrets.DATABASE_URL }}{{ $faults = append $faults "webhook.settings.DATABASE_URL and webhook.secrets.DATABASE_URL are both set: remove one of them" }}{{ end -}}
{{- if and $webhook.from (not $.Values.networkPolicy.enabled) }}{{ $faults = append $faults "webhook.from is set, and networkPolicy.enabled is false: it would be ignored; enable it, or remove webhook.from" }}{{ end -}}
{{- if and $webhook.ingress.enabled (not $webhook.enabled) }}{{ $faults = append $faults "webhook.ingress.enabled is true, and webhook.enabled is not: enable it, or remove the ingress" }}{{ end -}}
{{- if and $webhook.ingress.enabled (not $webhook.ingress.host) }}{{ $faults = append $faults "webhook.ingress.host is missing: set it, or disable webhook.ingress" }}{{ end -}}
{{- $console := include "promo-intake.console" $ | fromYaml -}}
{{- if and $console.enabled (not $secrets.CONSOLE_TOKENS) }}{{ $faults = append $faults "secrets.CONSOLE_TOKENS is missing: set it to {secret: NAME, key: KEY} of a Secret that holds the tokens of operators, or disable console" }}{{ end -}}
{{- if and $console.enabled (not (or $console.settings.DATABASE_URL $console.secrets.DATABASE_URL)) }}{{ $faults = append $faults "console.secrets.DATABASE_URL is missing: the console would run as the workers' role, which cannot read the views of promo; set it, or console.settings.DATABASE_URL, to the address with the reader's role" }}{{ end -}}
{{- if and $console.settings.DATABASE_URL $console.secrets.DATABASE_URL }}{{ $faults = append $faults "console.settings.DATABASE_URL and console.secrets.DATABASE_URL are both set: remove one of them" }}{{ end -}}
{{- if and $console.enabled (eq (include "promo-intake.consolePort" $) (include "promo-intake.port" $)) }}{{ $faults = append $faults "settings.CONSOLE_PORT is the same as settings.HTTP_PORT: set one of them to another port" }}{{ end -}}
{{- if and $console.from (not $.Values.networkPolicy.enabled) }}{{ $faults = append $faults "console.from is set, and networkPolicy.enabled is false: it would be ignored; enable it, or remove console.from" }}{{ end -}}
{{- if and $console.ingress.enabled (not $console.enabled) }}{{ $faults = append $faults "console.ingress.enabled is true, and console.enabled is not: enable it, or remove the ingress" }}{{ end -}}
{{- if and $console.ingress.enabled (not $console.ingress.host) }}{{ $faults = append $faults "console.ingress.host is missing: set it, or disable console.ingress" }}{{ end -}}
{{- $rollups := include "promo-intake.rollups" $ | fromYaml -}}
{{- if and $rollups.enabled (not (or $rollups.settings.DATABASE_URL $rollups.secrets.DATABASE_URL)) }}{{ $faults = append $faults "rollups.secrets.DATABASE_URL is missing: the rollups would run as the workers' role, which cannot write their tables; set it, or rollups.settings.DATABASE_URL, to the address with the role of migration.grant.rollups" }}{{ end -}}
{{- if and $rollups.settings.DATABASE_URL $rollups.secrets.DATABASE_URL }}{{ $faults = append $faults "rollups.settings.DATABASE_URL and rollups.secrets.DATABASE_URL are both set: remove one of them" }}{{ end -}}
{{- $pseudonyms := include "promo-intake.pseudonyms" $ | fromYaml -}}
{{- if and $pseudonyms.enabled (not $pseudonyms.secrets.PSEUDONYM_KEYS) }}{{ $faults = append $faults "pseudonyms.secrets.PSEUDONYM_KEYS is missing: set it to {secret: NAME, key: KEY} of a Secret that holds the key of the pseudonyms, or disable pseudonyms" }}{{ end -}}
{{- if and $pseudonyms.enabled (not (or $pseudonyms.settings.DATABASE_URL $pseudonyms.secrets.DATABASE_URL)) }}{{ $faults = append $faults "pseudonyms.secrets.DATABASE_URL is missing: the pseudonyms would run as the workers' role, which cannot write their tables; set it, or pseudonyms.settings.DATABASE_URL, to the address with the role of migration.grant.pseudonyms" }}{{ end -}}
{{- if and $pseudonyms.settings.DATABASE_URL $pseudonyms.secrets.DATABASE_URL }}{{ $faults = append $faults "pseudonyms.settings.DATABASE_URL and pseudonyms.secrets.DATABASE_URL are both set: remove one of them" }}{{ end -}}
{{- $promotions := include "promo-intake.promotions" $ | fromYaml -}}
{{- if and $promotions.enabled (not (or $promotions.settings.DATABASE_URL $promotions.secrets.DATABASE_URL)) }}{{ $faults = append $faults "promotions.secrets.DATABASE_URL is missing: the promotions would run as the workers' role, which cannot write their tables; set it, or promotions.settings.DATABASE_URL, to the address with the role of migration.grant.promotions" }}{{ end -}}
{{- if and $promotions.settings.DATABASE_URL $promotions.secrets.DATABASE_URL }}{{ $faults = append $faults "promotions.settings.DATABASE_URL and promotions.secrets.DATABASE_URL are both set: remove one of them" }}{{ end -}}
{{- $completions := include "promo-intake.completions" $ | fromYaml -}}
{{- if and $completions.enabled (not .settings.COMPLETION_TOPIC) }}{{ $faults = append $faults "settings.COMPLETION_TOPIC is missing: set it to the topic of completions, such as promo.completion.v1.{operator}, or disable completions" }}{{ end -}}
{{- if and $completions.enabled (not (or .settings.KAFKA_BROKERS $completions.settings.KAFKA_BROKERS)) }}{{ $faults = append $faults "completions.settings.KAFKA_BROKERS is missing: set it, or settings.KAFKA_BROKERS, to the brokers, as host:port, comma-separated" }}{{ end -}}
{{- if and $completions.enabled (not (or $completions.settings.DATABASE_URL $completions.secrets.DATABASE_URL)) }}{{ $faults = append $faults "completions.secrets.DATABASE_URL is missing: completions would be published as the workers' role, which cannot read their ledger; set it, or completions.settings.DATABASE_URL, to the address with the role of migration.grant.completions" }}{{ end -}}
{{- if and $completions.settings.DATABASE_URL $completions.secrets.DATABASE_URL }}{{ $faults = append $faults "completions.settings.DATABASE_URL and completions.secrets.DATABASE_URL are both set: remove one of them" }}{{ end -}}
{{- if and (ne (default "none" .metrics.monitor) "none") .networkPolicy.enabled (not .networkPolicy.from) }}{{ $faults = append $faults "networkPolicy.from is missing: metrics.monitor makes Prometheus scrape the pods, but no peer may reach HTTP_PORT; set it to the peers of Prometheus, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]" }}{{ end -}}
{{- if gt (len (default "" .reference.data)) 1000000 }}{{ $faults = append $faults (printf "reference.data has %d bytes, and a ConfigMap has at most 1 MiB: gzip the file, create a ConfigMap or Secret from it with kubectl create, and set reference.existing" (len .reference.data)) }}{{ end -}}
{{- if and .reference.data .reference.existing }}{{ $faults = append $faults "reference.data and reference.existing are both set: remove one of them" }}{{ end -}}
{{- if gt (len (default "" .promotionsDocument.data)) 1000000 }}{{ $faults = append $faults (printf "promotionsDocument.data has %d bytes, and a ConfigMap has at most 1 MiB: gzip the file, create a ConfigMap or Secret from it with kubectl create, and set promotionsDocument.existing" (len .promotionsDocument.data)) }}{{ end -}}
{{- if and .promotionsDocument.data .promotionsDocument.existing }}{{ $faults = append $faults "promotionsDocument.data and promotionsDocument.existing are both set: remove one of them" }}{{ end -}}
{{- if and .autoscaling.enabled (lt (int .autoscaling.maxReplicas) (int .autoscaling.minReplicas)) }}{{ $faults = append $faults "autoscaling.maxReplicas is below autoscaling.minReplicas: raise it" }}{{ end -}}
{{- if and .autoscaling.enabled (le (int .autoscaling.upAfterSeconds) (int .autoscaling.pollingSeconds)) }}{{ $faults = append $faults "autoscaling.upAfterSeconds is not above autoscaling.pollingSeconds: raise it, because a single query may be wrong" }}{{ end -}}
{{- if and .autoscaling.prometheus.authModes (not .autoscaling.authenticationRef) }}{{ $faults = append $faults "autoscaling.authenticationRef is missing: set it to the TriggerAuthentication of autoscaling.prometheus.authModes" }}{{ end -}}
{{- if and .autoscaling.enabled (not .autoscaling.prometheus.serverAddress) (not .autoscaling.authenticationRef) (eq (default "" .settings.KAFKA_SASL_MECHANISM) "OAUTHBEARER") }}{{ $faults = append $faults "autoscaling.authenticationRef is missing: with OAUTHBEARER, set it to your own TriggerAuthentication" }}{{ end -}}
{{- end -}}
{{- if $faults }}{{ fail (printf "\n  %s" (join "\n  " $faults)) }}{{ end -}}
{{- end -}}
