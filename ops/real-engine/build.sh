#!/usr/bin/env bash
# Builds llama-server from the source that the npm package node-llama-cpp carries, and writes tiny models with random weights.
#
#   ops/real-engine/build.sh [FOLDER]              default FOLDER: .real-engine
#   ops/real-engine/build.sh --configure [FOLDER]  stops before it compiles
#
# Afterwards FOLDER has llama-server and tiny-*.gguf. Needs git, npm, cmake, a C++ compiler and python3 with venv; takes about ten
# minutes on two cores. Steps that are done are not done again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# The package has a git bundle of the release of llama.cpp that it was made for.
version=3.22.1
sha256=a0d9dd80eacd2ab1cfe71aee57ac8a806487fd70b3d2a38fbec637752d9e5c5f

configure_only=
if [ "${1:-}" = --configure ]; then configure_only=1 && shift; fi
mkdir -p "${1:-.real-engine}"
cd "${1:-.real-engine}"

for program in git npm cmake c++ python3; do
  command -v "$program" >/dev/null || { echo "$program is missing" >&2 && exit 1; }
done

if [ ! -x venv/bin/python ]; then python3 -m venv venv; fi
venv/bin/pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
venv/bin/python "$here/make_models.py" .

archive=node-llama-cpp-$version.tgz
if [ ! -f "$archive" ]; then npm pack --silent "node-llama-cpp@$version" >/dev/null; fi
echo "$sha256  $archive" | sha256sum --check --quiet
if [ ! -d source ]; then
  tar -xzf "$archive" package/llama/gitRelease.bundle
  git clone --quiet package/llama/gitRelease.bundle source
  rm -r package
fi

generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi
# For any machine of this architecture, without what a test does not need.
cmake -S source -B build "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF \
  -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_MTMD=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF >configure.log
if [ -n "$configure_only" ]; then echo "configured in $PWD/build" && exit; fi
cmake --build build --target llama-server --parallel
cp build/bin/llama-server .
echo "$PWD/llama-server"
