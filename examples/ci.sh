#!/bin/sh
# Warm a cache in CI and ship it as one file: what the build job compiles, nobody compiles again.
#
#   sh examples/ci.sh
#
# In a real pipeline the three parts are three jobs, and the key is a secret of it: see docs/ci.md.
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

warmgraph keygen --to "$work/warmgraph.key"

echo "== build: compile once, sign, and write all of it to one file"
export WARMGRAPH_DIR="$work/build"
export WARMGRAPH_SIGNING_KEY_FILE="$work/warmgraph.key"
warmgraph run "$here/train.py"
warmgraph export --to "$work/bundle.wg"

echo "== image: check the file, and add it to a store that is part of the image"
export WARMGRAPH_DIR="$work/image"
export WARMGRAPH_SIGNING_KEY_FILE="$work/warmgraph.key.pub" # from here on: it checks, and cannot sign
warmgraph import "$work/bundle.wg"

echo "== test: the same program in the image; fail if anything had to be compiled"
warmgraph run "$here/train.py"
warmgraph audit --fail-under 1.0
