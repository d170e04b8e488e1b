#!/usr/bin/env bash
# Run the tests on the lowest versions that pyproject.toml allows, extras included: `make test-lowest`. Not part of
# `make test`: it takes as long again, and PyTorch 2.3 from the package index brings 3 GB of CUDA. Python must be 3.11 or
# 3.12, the last that PyTorch 2.3 has builds for. Give versions to hold some where they cannot be had, such as
#
#     PYTHON=python3.12 tools/test_lowest.sh torch==2.13.0
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${LOWEST:-build/lowest}
"${PYTHON:-python3}" -m venv --clear "$folder"
"$folder/bin/python" tools/lowest_versions.py "$@" > "$folder/constraints.txt"
cat "$folder/constraints.txt"
"$folder/bin/pip" install --quiet --disable-pip-version-check --constraint "$folder/constraints.txt" \
    ".[chem,pyg,scale,tensorboard,test]"
"$folder/bin/python" -m pytest -n "${WORKERS:-auto}" -p no:cacheprovider tests
