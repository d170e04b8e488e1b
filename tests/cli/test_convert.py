"""`cwnet convert`: commands of chemprop as commands of cwnet."""

import shlex
from functools import cache

import pytest
import typer
from typer.testing import CliRunner

from cwnet.cli import app
from cwnet.cli._chemprop import VERBS

#: The options of chemprop 2.3.1.
COMMON = """smiles-columns reaction-columns no-header-row num-workers batch-size accelerator devices rxn-mode
reaction-mode multi-hot-atom-featurizer-mode keep-h add-h ignore-stereo reorder-atoms
molecule-featurizers features-generators descriptors-path descriptors-columns no-descriptor-scaling
no-atom-feature-scaling no-atom-descriptor-scaling no-bond-feature-scaling no-bond-descriptor-scaling
atom-features-path atom-descriptors-path bond-features-path bond-descriptors-path constraints-path
constraints-to-targets use-cuikmolmaker-featurization logfile log"""
TRAIN = """data-path output-dir save-dir remove-checkpoints checkpoint freeze-encoder model-frzn frzn-ffn-layers
from-foundation ensemble-size message-hidden-dim message-bias depth undirected dropout mpn-shared
aggregation agg aggregation-norm atom-messages activation activation-args ffn-hidden-dim ffn-num-layers
batch-norm multiclass-num-classes atom-task-weights atom-ffn-hidden-dim atom-ffn-num-layers
atom-multiclass-num-classes bond-task-weights bond-ffn-hidden-dim bond-ffn-num-layers
bond-multiclass-num-classes atom-constrainer-ffn-hidden-dim atom-constrainer-ffn-num-layers
bond-constrainer-ffn-hidden-dim bond-constrainer-ffn-num-layers weight-column target-columns
mol-target-columns atom-target-columns bond-target-columns ignore-columns no-cache splits-column
task-type loss-function v-kl evidential-regularization eps alpha metrics metric tracking-metric
show-individual-scores task-weights warmup-epochs init-lr max-lr final-lr epochs patience min-delta
grad-clip class-balance split split-type split-sizes split-key-molecule num-replicates num-folds
save-smiles-splits save-data-splits splits-file data-seed pytorch-seed"""
USE = "test-path output preds-path model-paths model-path"
OPTIONS = {
    "train": f"{COMMON} {TRAIN}",
    "predict": f"""{COMMON} {USE} drop-extra-columns callback callback-params cal-path uncertainty-method
        calibration-method evaluation-methods evaluation-method uncertainty-dropout-p dropout-sampling-size
        calibration-interval-percentile conformal-alpha cal-descriptors-path cal-atom-features-path
        cal-atom-descriptors-path cal-bond-features-path cal-bond-descriptors-path cal-constraints-path""",
    "fingerprint": f"{COMMON} {USE} ffn-block-index",
    "hpopt": f"""{COMMON} {TRAIN} search-parameter-keywords hpopt-save-dir raytune-num-samples
        raytune-search-algorithm raytune-trial-scheduler raytune-num-workers raytune-use-gpu
        raytune-num-checkpoints-to-keep raytune-grace-period raytune-reduction-factor raytune-temp-dir raytune-num-cpus
        raytune-num-gpus raytune-max-concurrent-trials hyperopt-n-initial-points hyperopt-random-state-seed""",
}


def convert(*arguments):
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


def command(text):
    """The command that one of chemprop becomes, and what is said."""
    found = convert(text)
    assert found.exit_code == 0, found.output
    return found.stdout.strip(), found.stderr


@cache
def options_of(verb):
    params = typer.main.get_command(app).commands[verb].params
    return {name for parameter in params for name in parameter.opts + parameter.secondary_opts}


def counterparts(option):
    """Options here that an option of chemprop may become."""
    said = [option.to, *option.words.values()]
    if option.how is not None:
        given = {"target-columns": ["a"]}
        said += [" ".join(option.how([value], given)[0]) for value in ("0.5", "2")]
        said += [" ".join(option.how(["a", "b"], given)[0])] if "smiles" in option.names else []
    return {word for text in said for word in text.split() if word.startswith("--")}


@pytest.mark.parametrize("verb", OPTIONS)
def test_every_option_of_chemprop_is_known(verb):
    assert not set(OPTIONS[verb].split()) - set(VERBS[verb].options)


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_a_counterpart_that_exists_or_a_sentence(verb):
    here = VERBS[verb]
    for name, option in here.options.items():
        # What other verbs do not take is said to go with the training.
        assert counterparts(option) <= options_of(here.name) | options_of("train"), name
        assert option.said or option.to or option.how, name
        assert not option.said or option.said[0].isupper() or option.said.startswith(("cwnet ", "split.json")), name
        assert not option.said or option.said.endswith("."), name


def test_what_a_model_keeps_is_not_given_again():
    found, said = command("chemprop predict --test-path a.csv --model-paths m --smiles-columns a b")
    assert found == "cwnet predict m a.csv"
    assert (
        "--smiles-columns: cwnet predict has no --smiles-columns: it is for cwnet train, and the model keeps it."
        in said
    )


def test_training():
    found, said = command(
        "chemprop train --data-path 'my data.csv' --task-type regression --smiles-columns smiles "
        "--target-columns logS tpsa -o out --epochs 30 --ensemble-size 5 --depth 4 --message-hidden-dim 128 "
        "--max-lr 2e-3 --split scaffold_balanced --num-replicates 3 --data-seed 7 --accelerator cpu --batch-size 32"
    )
    assert found == (
        "cwnet train 'my data.csv' --task regression --smiles-column smiles --target-columns logS,tpsa --out out "
        "--epochs 30 --ensemble 5 --set model.layers=4 --set model.width=128 --set train.lr=2e-3 --split scaffold "
        "--replicates 3 --seeds 7 --device cpu --set train.batch_size=32"
    )
    assert said == ""


def test_what_train_here_takes_is_what_comes_out(tmp_path, monkeypatch):
    """A command with everything that goes into the recipe is read, up to the training."""
    pytest.importorskip("rdkit")
    from cwnet.errors import CwnetError
    from cwnet.molecules._targets import Targets
    from cwnet.molecules._train import default_recipe

    def stop(table, out, settings, **_):
        recipe = default_recipe(Targets("regression", ("y",)), 20, settings)
        raise CwnetError(f"width {recipe.model.width}, warmup {recipe.schedule.warmup}, loss {recipe.train.loss}")

    monkeypatch.setattr("cwnet.molecules._train.train_table", stop)
    (tmp_path / "d.csv").write_text("smiles,y\nC,1\nCC,2\n")
    found, _ = command(
        f"chemprop train -i {tmp_path}/d.csv -s smiles --target-columns y -t regression -o {tmp_path}/m --epochs 1 "
        "--ensemble-size 1 --message-hidden-dim 8 --depth 1 --dropout 0.1 --aggregation norm --activation elu "
        "--grad-clip 1 --warmup-epochs 0 --final-lr 1e-5 --patience 3 --loss-function mse --accelerator cpu "
        "--tracking-metric rmse -q"
    )
    trained = CliRunner().invoke(app, shlex.split(found)[1:])
    assert trained.output == "error: width 8, warmup 0, loss mse\n"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("--smiles-columns a b", "--smiles-columns a,b"),
        ("--weight-column w", "--weight-column w"),
        ("--target-columns a b --task-weights 2 1", "--target-columns a,b --target-weights a=2,b=1"),
        ("--descriptors-columns pH T", "--descriptor-columns pH,T"),
        ("--molecule-featurizers v1_rdkit_2d_normalized morgan_count", "--descriptors rdkit"),
        ("--atom-target-columns q", "--target-columns q --target-level atom"),
        ("--bond-target-columns q", "--target-columns q --target-level bond"),
        ("--task-type regression-mve", "--task regression --uncertainty mve"),
        ("--task-type multiclass --class-balance", "--task classification --balance"),
        ("--split kennard_stone", "--split kennard-stone"),
        ("--split-type KMEANS", "--split cluster"),
        ("--splits-column part", "--split column:part"),
        ("--num-folds 5", "--folds 5"),
        ("--num-replicates 1 --split random --split-sizes 0.8 0.1 0.1 --devices 1", ""),
        ("--gpu 1", "--device cuda:1"),
        ("--final-lr=-1", "--set schedule.min_lr=-1"),
        ("--init_lr -0.5 --dropout 0.2", "--set model.dropout=0.2"),
    ],
)
def test_single_options(given, wanted):
    assert command(f"chemprop train --data-path d.csv {given}")[0] == f"cwnet train d.csv {wanted}".strip()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("--reaction-columns rxn", "--reaction-columns: A column of reactions is given to cwnet train"),
        ("--task-type spectral", "--task-type: cwnet has no evidential"),
        ("--task-weights 1 2", "--task-weights: cwnet gives weights to columns by name"),
        ("--split-sizes 0.9 0.1 0", "--split-sizes: Parts are 80, 10 and 10 % here"),
        ("--split-sizes a b c", "--split-sizes: a b c is not a number."),
        ("--from-foundation CheMeleon", "--from-foundation: cwnet trains networks from the start"),
        ("--no-such-thing 3 4", "--no-such-thing: This is no option of chemprop that cwnet knows."),
        ("--target-columns 'a,b' c", "--target-columns: A name with a comma"),
        ("--message-hidden-dim 300 400", "--message-hidden-dim: One number is for all"),
        ("--splits-column p --split scaffold_balanced", "--split: It was asked for twice"),
        ("--data-path train.csv test.csv", "--data-path: cwnet train takes one table"),
    ],
)
def test_what_has_no_counterpart_is_said(given, sentence):
    found = convert(f"chemprop train --data-path d.csv {given}")
    assert found.exit_code == 0, found.output
    assert sentence in found.stderr


def test_the_other_verbs():
    found, said = command(
        "chemprop predict --test-path new.csv --model-paths out/model_0/best.pt -o p.csv --conformal-alpha 0.2"
    )
    assert found == "cwnet predict out new.csv --output p.csv --interval 0.8"
    assert "--model-paths: cwnet cannot read models of chemprop" in said
    found, _ = command("chemprop fingerprint -i new.csv --model-paths out -o f.csv --ffn-block-index 0")
    assert found == "cwnet fingerprint out new.csv --output f.csv"
    found, said = command(
        "chemprop hpopt --data-path d.csv --raytune-num-samples 30 --hpopt-save-dir t --data-seed 2 --num-replicates 3 "
        "--depth 4 --search-parameter-keywords all"
    )
    assert found == "cwnet tune d.csv --trials 30 --out t --seed 2 --set model.layers=4"
    assert "--replicates: cwnet tune has no --replicates: give it to cwnet train afterwards." in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("chemprop_train --data_path d.csv --dataset_type classification --save_dir out --hidden_size 100 "
         "--num_folds 5 --split_type scaffold_balanced --seed 3 --features_generator rdkit_2d_normalized "
         "--no_features_scaling --quiet",
         "train d.csv --task classification --out out --set model.width=100 --folds 5 --split scaffold --seeds 3 "
         "--descriptors rdkit --quiet"),
        ("chemprop_predict --test_path n.csv --checkpoint_dir out --preds_path p.csv",
         "predict out n.csv --output p.csv"),
        ("chemprop_hyperopt --data_path d.csv --num_iters 9 --config_save_path a/c.json",
         "tune d.csv --trials 9 --out a"),
        ("chemprop_interpret --data_path n.csv --checkpoint_dir out --property_id 1", "explain out n.csv"),
        ("python train.py --data_path d.csv --gpu 0", "train d.csv --device cuda:0"),
        ("CUDA_VISIBLE_DEVICES=0 /usr/bin/chemprop_train --data_path d.csv", "train d.csv"),
    ],
)  # fmt: skip
def test_version_one(old, new):
    assert command(old)[0] == f"cwnet {new}"


def test_words_without_quotes_are_taken_too():
    assert convert("chemprop", "train", "--data-path", "d.csv", "-o", "m").stdout == "cwnet train d.csv --out m\n"


#: As chemprop writes it: no quotes, and every default.
CONFIG = """data-path = [d.csv]
output-dir = out
smiles-columns = [smiles]
target-columns = [a, b]
task-type = classification
ensemble-size = 1
epochs = 50
max-lr = 0.0005
message-hidden-dim = [300]
depth = [5]
split = SCAFFOLD_BALANCED
split-sizes = [0.8, 0.1, 0.1]
class-balance = true
batch-norm = false
num-workers = 0
"""
AS_CWNET = (
    "cwnet train d.csv --out out --smiles-column smiles --target-columns a,b --task classification "
    "--set train.lr=0.0005 --set model.layers=5 --split scaffold --balance"
)


def test_a_config_file(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    assert command(path) == (AS_CWNET, "")
    found, _ = command(f"chemprop train --config-path {path} --epochs 50")
    assert found == f"{AS_CWNET} --epochs 50"
    path.write_text('data-path = ["d.csv"]\nepochs = 7\n')
    assert command(str(path))[0] == "cwnet train d.csv --epochs 7"
    path.with_suffix(".json").write_text('{"data_path": "d.csv", "hidden_size": 64, "quiet": true, "seed": null}')
    assert command(str(path.with_suffix(".json")))[0] == "cwnet train d.csv --set model.width=64 --quiet"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gcc -o a a.c", "is not a command of chemprop"),
        ("chemprop convert --input-path a.pt", "is not a command of chemprop"),
        ("chemprop train --epochs 3", "there is no --data-path in it"),
        ("chemprop predict --test-path n.csv", "there is no --model-paths in it"),
        ("chemprop train --data-path d.csv --epochs", "--epochs has no value"),
        ("chemprop train d.csv", "'d.csv' belongs to no option"),
        ("none.toml", "No such file"),
        ("chemprop train --data-path 'd.csv", "No closing quotation"),
    ],
)
def test_mistakes(given, message):
    found = convert(given)
    assert (found.exit_code, message in found.output) == (2, True), found.output


def test_a_broken_config_file(tmp_path):
    (tmp_path / "config.toml").write_text("data-path = [d.csv]\nwhat is this\n")
    found = convert(tmp_path / "config.toml")
    assert (found.exit_code, "line 2: 'what is this' is not of the form key = value" in found.output) == (2, True)
