#!/usr/bin/env bash
# Run the tests on the lowest versions that pyproject.toml allows: `make test-lowest`, which takes a while and is not part
# of `make test`, since old builds of PyTorch are gigabytes. Give versions to hold some where they cannot be had, such as
#
#     tools/test_lowest.sh torch==2.13.0
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${LOWEST:-build/lowest}
python3 -m venv "$folder"
python3 tools/lowest_versions.py "$@" > "$folder/constraints.txt"
cat "$folder/constraints.txt"
"$folder/bin/pip" install --quiet --disable-pip-version-check --constraint "$folder/constraints.txt" \
    ".[test]" "packaging"
"$folder/bin/python" -m pytest -n auto -p no:cacheprovider tests
