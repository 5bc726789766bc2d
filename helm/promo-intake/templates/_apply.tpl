{{/* A job that applies a file, after the migrations and before the workers change. With data of the values it has a ConfigMap. */}}
{{- define "promo-intake.applyJob" -}}
{{- $root := .root -}}
{{- $command := .command -}}
{{- $weight := .weight -}}
{{- $options := .options -}}
{{- $component := .component -}}
{{- $file := printf "%s.yaml" $command -}}
{{- with .values -}}
{{- $existing := default dict .existing -}}
{{- $configuration := include "promo-intake.jobConfiguration" (dict "values" $root.Values "own" $root.Values.migration) | fromYaml -}}
{{- $job := dict "root" $root "component" $component "configuration" $configuration -}}
{{- $name := printf "%s-%s" (include "promo-intake.fullname" $root) $component -}}
{{- if .data }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "promo-intake.labels" $job | nindent 4 }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: {{ sub $weight 5 | toString | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
data:
  {{ $file }}: {{ .data | toJson }}
---
{{- end }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "promo-intake.labels" $job | nindent 4 }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: {{ $weight | toString | quote }}
    helm.sh/hook-delete-policy: before-hook-creation
    helm.sh/hook-output-log-policy: hook-failed
spec:
  ttlSecondsAfterFinished: 604800
  backoffLimit: {{ .backoffLimit }}
  activeDeadlineSeconds: {{ .activeDeadlineSeconds }}
  template:
    metadata:
      {{- include "promo-intake.podMetadata" $job | nindent 6 }}
    spec:
      serviceAccountName: {{ include "promo-intake.jobServiceAccountName" $root | quote }}
      {{- include "promo-intake.podSpec" $job | nindent 6 }}
      restartPolicy: Never
      containers:
        - name: apply
          {{- include "promo-intake.container" $root | nindent 10 }}
          args: [{{ $command }}, apply, /{{ $command }}/{{ ternary $existing.key $file (hasKey $existing "volume") }}{{ range $options }}, {{ . }}{{ end }}]
          env:
            {{- include "promo-intake.env" $job | trim | nindent 12 }}
          resources:
            {{- toYaml .resources | nindent 12 }}
          volumeMounts:
            - {name: {{ $command }}, mountPath: /{{ $command }}, readOnly: true}
            {{- include "promo-intake.volumeMounts" $job | trim | nindent 12 }}
      volumes:
        - name: {{ $command }}
          {{- if $existing.volume }}
          {{- toYaml $existing.volume | nindent 10 }}
          {{- else }}
          {{- if $existing.secret }}
          secret:
            secretName: {{ $existing.secret | quote }}
            defaultMode: 0440
          {{- else }}
          configMap:
            name: {{ default $name $existing.configMap | quote }}
          {{- end }}
            items: [{key: {{ default $file $existing.key | quote }}, path: {{ $file }}}]
          {{- end }}
        {{- include "promo-intake.volumes" $job | trim | nindent 8 }}
{{- end -}}
{{- end -}}
