#!/usr/bin/env bash
# Writes headrace.yaml from the Helm chart and values.yaml. Needs what ops/helm/build.sh builds.
set -euo pipefail
cd "$(dirname "$0")/../.."
{
  echo '# Gateways behind a service, made from the Helm chart by ops/kubernetes/write.sh. Before it, make the Secret headrace with the keys'
  echo '# store (postgres://...) and admin-token.'
  .helm-tool/helm-tool render ops/helm/headrace -f ops/kubernetes/values.yaml
} >ops/kubernetes/headrace.yaml
