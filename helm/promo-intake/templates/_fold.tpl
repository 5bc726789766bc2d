{{/*
The deployment of a process that reads behind the workers: the rollups, the pseudonyms, or the promotions. One pod works, and the others wait for its end.
Takes (dict "root" $ "component" "rollups" "values" …).
*/}}
{{- define "promo-intake.fold" -}}
{{- $configuration := include "promo-intake.configuration" (dict "values" .root.Values "component" .component "own" .values) | fromYaml }}
{{- $pods := dict "root" .root "component" .component "configuration" $configuration }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "promo-intake.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "promo-intake.labels" $pods | nindent 4 }}
spec:
  replicas: {{ .values.replicas }}
  # Longer than a start may take, so that a slow start is not reported as failed.
  progressDeadlineSeconds: 600
  revisionHistoryLimit: 5
  # The new pod waits until the old one ends, and then takes over at once.
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels:
      {{- include "promo-intake.selector" $pods | nindent 6 }}
  template:
    metadata:
      {{- include "promo-intake.podMetadata" $pods | nindent 6 }}
    spec:
      serviceAccountName: {{ include "promo-intake.serviceAccountName" .root | quote }}
      {{- include "promo-intake.podSpec" $pods | nindent 6 }}
      terminationGracePeriodSeconds: {{ add (int .root.Values.settings.SHUTDOWN_SECONDS) (int .values.extraGraceSeconds) }}
      containers:
        - name: {{ .component }}
          {{- include "promo-intake.container" .root | nindent 10 }}
          args: [{{ .component }}]
          ports:
            - {name: http, containerPort: {{ include "promo-intake.port" .root }}, protocol: TCP}
          env:
            {{- if not .root.Values.settings.LIVENESS_HEARTBEAT }}
            - {name: LIVENESS_HEARTBEAT, value: {{ include "promo-intake.heartbeat" .root | quote }}}
            {{- end }}
            {{- include "promo-intake.env" $pods | trim | nindent 12 }}
          startupProbe:
            {{- include "promo-intake.livenessCheck" $pods | nindent 12 }}
            {{- toYaml .values.startupProbe | nindent 12 }}
          livenessProbe:
            {{- include "promo-intake.livenessCheck" $pods | nindent 12 }}
            {{- toYaml .values.livenessProbe | nindent 12 }}
          readinessProbe:
            httpGet: {path: /readyz, port: http}
            {{- toYaml .values.readinessProbe | nindent 12 }}
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          {{- with include "promo-intake.volumeMounts" $pods | trim }}
          volumeMounts:
            {{- . | nindent 12 }}
          {{- end }}
      {{- with include "promo-intake.volumes" $pods | trim }}
      volumes:
        {{- . | nindent 8 }}
      {{- end }}
---
# Headless: it has the ready pods, for scraping and for `helm test`, and is not reachable from outside.
apiVersion: v1
kind: Service
metadata:
  name: {{ include "promo-intake.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "promo-intake.labels" $pods | nindent 4 }}
spec:
  clusterIP: None
  selector:
    {{- include "promo-intake.selector" $pods | nindent 4 }}
  ports:
    - {name: http, port: {{ include "promo-intake.port" .root }}, targetPort: http, protocol: TCP}
{{- include "promo-intake.standbyBudget" (set $pods "replicas" .values.replicas) }}
{{- end }}

{{/*
The budget of pods that work one at a time, so that drains of two nodes leave one of them. A single pod has none: a drain delays it by some seconds only.
Takes (dict "root" $ "component" "rollups" "replicas" 2).
*/}}
{{- define "promo-intake.standbyBudget" -}}
{{- if gt (int .replicas) 1 }}
---
{{ include "promo-intake.disruptionBudget" (set . "maxUnavailable" 1) }}
{{- end }}
{{- end -}}

{{/* A PodDisruptionBudget. Takes (dict "root" $ "component" "worker" "maxUnavailable" 1). */}}
{{- define "promo-intake.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "promo-intake.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "promo-intake.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .maxUnavailable }}
  # A pod that is not ready does not block a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "promo-intake.selector" . | nindent 6 }}
{{- end -}}
