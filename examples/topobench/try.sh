#!/usr/bin/env bash
# Train cell/cin on NCI1 in the real TopoBench, in an environment of its own, and print the test accuracy of each split.
#
#   try.sh FOLDER [ARGUMENTS OF TOPOBENCH]
#
# FOLDER takes some 2 GB. What is in it already is not made again, so a second call only trains. NCI1 comes from the TU
# site; where that cannot be reached, NCI1=path/to/NCI1.txt.gz names the same data in GIN's text format.
# SEEDS="0 3 5 7 9" chooses the splits. PYTHON names a Python 3.11, TORCH a version of PyTorch.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?which folder?}"
cd "$1"
shift

clone() { # the repository, and the commit that was tried
    [ -d "${1##*/}" ] || { git clone --quiet "https://github.com/$1" && git -C "${1##*/}" checkout --quiet "$2"; }
}
clone geometric-intelligence/TopoBench 671074a
clone pyt-team/TopoModelX a1f9a0f
clone pyt-team/TopoNetX c378925 # TopoBench asks for this one

if [ ! -e venv/made ]; then
    "${PYTHON:-python3.11}" -m venv venv
    venv/bin/pip install --quiet "torch==${TORCH:-2.13.0}" \
        "numpy<2" scipy scikit-learn pandas networkx requests tqdm rich rootutils \
        hydra-core==1.3.2 hydra-colorlog==1.2.0 lightning==2.4.0 torchmetrics wandb \
        torch-geometric ogb gudhi trimesh more-itertools typing-extensions
    touch venv/made
fi
export PYTHONPATH=$PWD/TopoBench:$PWD/TopoModelX:$PWD/TopoNetX:$here${PYTHONPATH:+:$PYTHONPATH}
venv/bin/python -c "import cwnet" 2> /dev/null || venv/bin/pip install --quiet "$here/../.."

raw=TopoBench/datasets/graph/TUDataset/NCI1/raw
[ -z "${NCI1:-}" ] || [ -e "$raw" ] || venv/bin/python "$here/nci1_raw.py" "$NCI1" "$raw"

# The settings of TopoBench's own scripts/reproduce.sh for cell/cwn on NCI1, but for model and lifting.
for seed in ${SEEDS:-0 3 5 7 9}; do
    OMP_NUM_THREADS=1 venv/bin/python "$here/stand_ins.py" cwnet_topobench \
        model=cell/cin dataset=graph/NCI1 transforms=liftings/graph2cell_rings \
        transforms.graph2cell_lifting.max_cell_length=10 "transforms.graph2cell_lifting.connectivities=[]" \
        model.feature_encoder.out_channels=64 model.feature_encoder.proj_dropout=0.25 model.backbone.n_layers=4 \
        optimizer.parameters.lr=0.001 dataset.dataloader_params.batch_size=128 \
        trainer.max_epochs=500 trainer.min_epochs=50 trainer.check_val_every_n_epoch=5 \
        callbacks.early_stopping.patience=10 logger=csv "dataset.split_params.data_seed=$seed" "$@" \
        > "seed$seed.log" 2>&1
    echo "split $seed: test accuracy $(grep -o "test_best_rerun/accuracy': [0-9.]*" "seed$seed.log" | cut -d " " -f 2)"
done
