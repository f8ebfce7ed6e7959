{{- define "headrace.name" -}}
{{- .Values.nameOverride | default .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "headrace.selector" -}}
app.kubernetes.io/name: headrace
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "headrace.labels" -}}
{{ include "headrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Another name than that of the gateways, whose Service must not choose pickers. */}}
{{- define "headrace.pickerSelector" -}}
app.kubernetes.io/name: headrace-picker
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "headrace.pickerLabels" -}}
{{ include "headrace.pickerSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "headrace.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "headrace.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "headrace.secret" -}}
{{- if .Values.secrets.existingSecret -}}
{{- .Values.secrets.existingSecret -}}
{{- else if .Values.secrets.values -}}
{{- include "headrace.name" . -}}
{{- end -}}
{{- end -}}

{{/* Port of an address such as 0.0.0.0:8080. */}}
{{- define "headrace.port" -}}
{{- regexFind "[0-9]+$" (toString .) -}}
{{- end -}}

{{/* A duration such as 1.5s or 2m in whole seconds, rounded up. */}}
{{- define "headrace.seconds" -}}
{{- $text := lower (nospace (toString .)) -}}
{{- $number := float64 (regexFind "^[0-9.]+" $text) -}}
{{- $unit := regexFind "[a-z]+$" $text -}}
{{- if eq $unit "ms" -}}{{- $number = divf $number 1000 -}}{{- end -}}
{{- if eq $unit "m" -}}{{- $number = mulf $number 60 -}}{{- end -}}
{{- if eq $unit "h" -}}{{- $number = mulf $number 3600 -}}{{- end -}}
{{- if eq $unit "d" -}}{{- $number = mulf $number 86400 -}}{{- end -}}
{{- int (ceil $number) -}}
{{- end -}}

{{/* preStop, timeouts.unready, timeouts.drain, the 15 s in which a gateway waits for its ledger, with payments the 90 s for settlements, and a margin of 5 s. */}}
{{- define "headrace.grace" -}}
{{- $timeouts := .Values.config.timeouts | default dict -}}
{{- $unready := int (include "headrace.seconds" ($timeouts.unready | default "0s")) -}}
{{- $drain := int (include "headrace.seconds" ($timeouts.drain | default "30s")) -}}
{{- $payments := .Values.config.payments | default dict -}}
{{- add (int .Values.preStopSeconds) $unready $drain (ternary 110 20 (not (empty $payments.facilitator))) -}}
{{- end -}}

{{/* Those of the values win. */}}
{{- define "headrace.podAnnotations" -}}
{{- $own := dict "prometheus.io/scrape" "true" "prometheus.io/port" (include "headrace.port" .Values.config.admin) -}}
{{- if .Values.restartOnConfigChange -}}
{{- $_ := set $own "checksum/config" (toJson .Values.config | sha256sum) -}}
{{- end -}}
{{- merge (deepCopy .Values.podAnnotations) $own | toYaml -}}
{{- end -}}

{{/* Sources of discovery of kind kubernetes, as JSON. */}}
{{- define "headrace.sources" -}}
{{- $sources := list -}}
{{- if kindIs "slice" .Values.config.discovery -}}
{{- range .Values.config.discovery -}}
{{- if eq (toString .kind) "kubernetes" -}}{{- $sources = append $sources . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $sources -}}
{{- end -}}

{{/* What the schema cannot say: values that exclude each other. */}}
{{- define "headrace.check" -}}
{{- $everywhere := `(0\.0\.0\.0|\[::\]):[1-9][0-9]*` -}}
{{- if not (regexMatch (printf `^(%s|[1-9][0-9]*)$` $everywhere) (toString .Values.config.listen)) -}}
{{- fail "config.listen must be 0.0.0.0:PORT or [::]:PORT: clients and probes reach the address of the pod" -}}
{{- end -}}
{{- if not (regexMatch (printf `^%s$` $everywhere) (toString .Values.config.admin)) -}}
{{- fail "config.admin must be 0.0.0.0:PORT or [::]:PORT: probes reach the address of the pod, and a NetworkPolicy keeps others away" -}}
{{- end -}}
{{- range $name, $time := .Values.config.timeouts | default dict -}}
{{- if and (has $name (list "unready" "drain")) (contains "${" (toString $time)) -}}
{{- fail (printf "config.timeouts.%s must be a time: terminationGracePeriodSeconds follows from it" $name) -}}
{{- end -}}
{{- end -}}
{{- $store := toString .Values.config.store -}}
{{- $many := or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) -}}
{{- $file := and (hasPrefix "sqlite:" $store) (ne $store "sqlite::memory:") -}}
{{- if and $file $many -}}
{{- fail "config.store is a file of SQLite: set replicas to 1 and autoscaling.enabled to false, or use postgres://" -}}
{{- end -}}
{{- if and $file (not .Values.persistence.enabled) -}}
{{- fail "config.store is a file of SQLite: set persistence.enabled, or the ledger is lost with its pod" -}}
{{- end -}}
{{- if and .Values.persistence.enabled $many -}}
{{- fail "persistence.enabled is for one gateway: set replicas to 1 and autoscaling.enabled to false" -}}
{{- end -}}
{{- if and .Values.secrets.existingSecret .Values.secrets.values -}}
{{- fail "secrets has both existingSecret and values: use one" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas exceeds maxReplicas" -}}
{{- end -}}
{{- end -}}
