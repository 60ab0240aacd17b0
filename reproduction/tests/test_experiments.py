"""The experiments: what is wanted, by which recipes."""

from dataclasses import replace

import pytest

from hitnet.losses import MISS_WEIGHT
from hitnet.models import choose_model
from hitnet.training import RECIPES
from reproduction import PAPER
from reproduction.arms import ARMS
from reproduction.cost import H200, Costs
from reproduction.our_sections import SOFTMAX_PAIRS
from reproduction.plan import DROPCONNECT_EXPERIMENTS, OUR_EXPERIMENTS, PAPER_EXPERIMENTS


def test_recipes():
    recipes = {name: experiment.full_recipe() for name, experiment in PAPER.experiments.items()}
    assert recipes["mnist-hitnet-constant"] == RECIPES["paper"]
    assert recipes["mnist-n2b-decay"] == RECIPES["paper-decay"]
    assert (recipes["affnist-hitnet"].shift, recipes["affnist-hitnet-shifts"].shift) == (0, 2)
    assert recipes["mnist-hybrid"].augment == "hybrid"
    ghosts = recipes["mnist-ghosts"]
    assert (ghosts.ghosts, ghosts.ghost_rule, ghosts.epochs) == (1, "always", 60)
    assert recipes["mnist-ghosts-250"] == replace(ghosts, epochs=250)
    assert all(experiment.read_ghosts[-1:] in ((), (experiment.epochs,)) for experiment in PAPER.experiments.values())
    assert recipes["mnist-capsnet"].epochs == recipes["mnist-hitnet-50"].epochs == 50
    shorter = {"mnist-ghosts", "svhn-ghosts", "mnist-capsnet", "mnist-hitnet-50"}
    of_the_paper = {experiment.name for experiment in PAPER_EXPERIMENTS}
    assert {recipes[name].epochs for name in of_the_paper - shorter} == {250}
    assert {recipes[name].shift_fill for name in of_the_paper} == {"zeros"}
    assert {recipes[name].augment_noise for name in of_the_paper} == {"normal"}


def test_arms_stand_beside_a_cell_and_are_none_themselves():
    for arm in ARMS:
        cell = PAPER.experiments[arm.arm_of]
        assert (arm.kind, cell.kind) == ("arm", "run")
        assert (arm.data, arm.network, arm.each_epoch) == (cell.data, cell.network, cell.each_epoch), arm.name
        assert cell.name in PAPER.claims or cell.read_ghosts, arm.name
        assert arm.name in PAPER.results["arms"].experiments
        shown_in = [name for name, result in PAPER.results.items() if arm.name in result.experiments]
        assert shown_in == (["ghosts-mnist", "arms"] if "ghosts-shared" in arm.name else ["arms"])
        if arm.teacher is not None:
            assert PAPER.experiments[arm.teacher].data == arm.data
    assert {experiment.name for experiment in PAPER.experiments.values() if experiment.kind == "arm"} == {
        arm.name for arm in ARMS
    }


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("cifar10-shift3-nearest", {"shift": 3, "shift_fill": "nearest"}),
        ("svhn-shared-shift3-nearest", {"shift": 3, "shift_fill": "nearest"}),
        ("fashion-shared", {}),
        ("affnist-shift4", {"shift": 4}),
        ("mnist-hybrid-shared-60", {"epochs": 60}),
        ("mnist-hybrid-component", {"augment_noise": "component"}),
        ("mnist-hybrid-shared-component-decay", {"augment_noise": "component"}),
        ("mnist-ghosts-still", {"shift": 0}),
        ("mnist-ghosts-shared-250", {}),
        ("cifar10-float32-60", {"precision": "float32", "epochs": 60}),
        ("mnist-hitnet-60", {"epochs": 60}),
    ],
)
def test_an_arm_changes_what_it_says_and_nothing_else(name, changes):
    arm = PAPER.experiments[name]
    cell = PAPER.experiments[arm.arm_of]
    assert arm.full_recipe() == replace(cell.full_recipe(), **changes)
    assert arm.model_options == ({"shared_norm": True} if "shared" in name else {})


def test_dropconnect_in_three_settings():
    settings = [experiment.full_recipe() for experiment in DROPCONNECT_EXPERIMENTS]
    assert [(recipe.shift, recipe.rotate, recipe.scale) for recipe in settings] == [
        (0, 0, 0),
        (2, 0, 0),
        (2, 15, 0.15),
    ]
    assert len({replace(recipe, shift=0, rotate=0.0, scale=0.0) for recipe in settings}) == 1
    assert {(experiment.wanted, experiment.network) for experiment in DROPCONNECT_EXPERIMENTS} == {(5, "dropconnect")}


def test_committees_are_disjoint_and_of_the_last_seeds():
    ours = PAPER.experiments["mnist-resnet9"]
    assert ours.committee_seeds == [tuple(range(first, first + 5)) for first in (20, 25, 30, 35, 40)]
    assert PAPER.experiments["mnist-hitnet-constant"].committee_seeds == [(20, 21, 22, 23, 24)]
    assert PAPER.experiments["mnist-dropconnect"].committee_seeds == [(0, 1, 2, 3, 4)]
    assert PAPER.experiments["fashion-hitnet"].committee_seeds == []


def test_wanted_runs():
    wanted = {name: experiment.wanted for name, experiment in PAPER.experiments.items()}
    assert [wanted[f"mnist-{network}-constant"] for network in ("hitnet", "n1", "n2", "n2b")] == [25, 5, 5, 5]
    assert [wanted[f"mnist-{network}-decay"] for network in ("hitnet", "n1", "n2", "n2b")] == [10, 3, 3, 3]
    assert [wanted[name] for name in ("fashion-hitnet", "cifar10-hitnet", "svhn-hitnet")] == [5, 3, 3]
    assert wanted["mnist-ghosts"] == 20


def test_wanted_runs_and_time():
    for experiment in OUR_EXPERIMENTS:
        rival = experiment.name.endswith(("-softmax", "-teacher"))
        assert rival or experiment.wanted >= (10 if experiment.data == "mnist" else 5)
        assert Costs(H200).seconds(experiment) <= 30, experiment.name
        assert experiment.name in {name for result in ("ours", "softmax") for name in PAPER.results[result].experiments}


def test_pairs_differ_only_in_the_head_and_its_loss():
    for title, hit, soft in SOFTMAX_PAIRS:
        capsules, softmax = PAPER.experiments[hit], PAPER.experiments[soft]
        of_the_loss = {"miss_weight": MISS_WEIGHT, "label_smoothing": 0.0}
        assert replace(capsules.full_recipe(), **of_the_loss) == replace(softmax.full_recipe(), **of_the_loss), title
        assert (capsules.data, capsules.images, capsules.in_shape) == (softmax.data, softmax.images, softmax.in_shape)
        assert capsules.network == softmax.network
        heads = [
            choose_model(experiment.network, **experiment.model_options).config(experiment.in_shape, experiment.classes)
            for experiment in (capsules, softmax)
        ]
        assert [config.head for config in heads] == ["hit-or-miss", "softmax"]
        assert heads[1].decoder == "none"


def test_digits_are_never_mirrored_and_affnist_is_shifted_as_in_the_paper():
    recipes = {experiment.name: experiment.full_recipe() for experiment in OUR_EXPERIMENTS}
    mirrored = {name for name, recipe in recipes.items() if recipe.flip}
    assert mirrored == {f"{data}-resnet9{end}" for data in ("cifar10", "fashion") for end in ("", "-softmax")}
    affnist = recipes["affnist-ours"]
    assert (affnist.shift, affnist.warp, affnist.invert, affnist.cutout) == (2, 0, False, 0)


def test_the_teacher_has_a_decoder_and_belongs_to_the_same_data():
    pupil = PAPER.experiments["mnist-ours"]
    teacher = PAPER.experiments[pupil.teacher]
    assert pupil.full_recipe().augment == "hybrid"
    assert (teacher.data, teacher.in_shape) == (pupil.data, pupil.in_shape)
    assert choose_model(teacher.network, **teacher.model_options).config(teacher.in_shape, 10).decoder == "conv"
