{{/*
The config file: the shipped one, or that with the keys of the value `config` in place of its own.
*/}}
{{- define "frameworkcontroller.config" -}}
{{- $shipped := .Files.Get "files/frameworkcontroller.yaml" -}}
{{- if .Values.config -}}
{{- mergeOverwrite (fromYaml $shipped) .Values.config | toYaml -}}
{{- else -}}
{{- $shipped -}}
{{- end -}}
{{- end -}}
