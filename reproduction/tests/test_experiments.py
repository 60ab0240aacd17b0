"""The experiments: what is wanted, by which recipes."""

from dataclasses import replace

import pytest

from hitnet.losses import MISS_WEIGHT
from hitnet.training import RECIPES
from reproduction import PAPER
from reproduction.beyond import DROPCONNECT, OURS
from reproduction.cost import H200, Costs
from reproduction.plan import ARMS, PAPER_EXPERIMENTS
from reproduction.sections import SOFTMAX_PAIRS


def test_recipes():
    recipes = {name: experiment.full_recipe() for name, experiment in PAPER.experiments.items()}
    assert recipes["mnist-hitnet-shared"] == RECIPES["paper"]
    assert recipes["mnist-n2b-shared-decay"] == RECIPES["paper-decay"]
    assert (recipes["affnist-still-shared"].shift, recipes["affnist-shared"].shift) == (0, 2)
    hybrid = recipes["mnist-hybrid-shared-component"]
    assert (hybrid.augment, hybrid.augment_noise, hybrid.augment_share) == ("hybrid", "component", 1.0)
    ghosts = recipes["mnist-ghosts-shared"]
    assert (ghosts.ghosts, ghosts.ghost_rule, ghosts.epochs) == (1, "always", 60)
    assert recipes["mnist-ghosts-shared-250"] == replace(ghosts, epochs=250)
    assert recipes["mnist-ghosts-shared-second"] == recipes["mnist-ghosts-shared-third"] == ghosts
    assert all(experiment.read_ghosts[-1:] in ((), (experiment.epochs,)) for experiment in PAPER.experiments.values())
    assert recipes["mnist-capsnet"].epochs == recipes["mnist-hitnet-each-50"].epochs == 50
    shorter = {"svhn-ghosts-shared", *(f"mnist-ghosts-shared{end}" for end in ("", "-second", "-third"))}
    shorter |= {"mnist-capsnet", "mnist-hitnet-each-50"}
    of_the_paper = {experiment.name for experiment in PAPER_EXPERIMENTS}
    assert {recipes[name].epochs for name in of_the_paper - shorter} == {250}
    assert {recipes[name].shift_fill for name in of_the_paper} == {"zeros"}


def test_the_name_of_an_experiment_says_its_batch_norm():
    for name, experiment in PAPER.experiments.items():
        for norm in ("shared", "each", "class"):
            if f"-{norm}" in name:
                assert experiment.full_options["norm"] == norm, name
    norms = {name: PAPER.experiments[name].full_options["norm"] for name in PAPER.claims}
    assert {name for name, norm in norms.items() if norm != "shared"} == {"mnist-n1-constant", "mnist-n1-decay"}
    assert PAPER.experiments["mnist-n1-constant"].full_options["norm"] == "each"  # of a vector of ten numbers
    assert PAPER.experiments["mnist-ours"].full_options["norm"] == "each"


def test_arms_stand_beside_a_cell_and_are_none_themselves():
    for arm in ARMS:
        other = PAPER.experiments[arm.arm_of]
        assert (arm.data, arm.network, arm.each_epoch) == (other.data, other.network, other.each_epoch), arm.name
        cell = other if other.arm_of is None else PAPER.experiments[other.arm_of]
        assert cell.arm_of is None
        assert cell.name in PAPER.claims or cell.read_ghosts, arm.name
        assert arm.name in PAPER.results["readings"].experiments
        assert arm.name not in PAPER.claims
        if arm.teacher is not None:
            assert PAPER.experiments[arm.teacher].data == arm.data
    assert {name for name, experiment in PAPER.experiments.items() if experiment.arm_of} == {arm.name for arm in ARMS}


@pytest.mark.parametrize(
    ("name", "changes", "norm"),
    [
        ("fashion-each", {}, "each"),
        ("mnist-n2b-each-decay", {}, "each"),
        ("mnist-hitnet-class-60", {"epochs": 60}, "class"),
        ("cifar10-shared-shift3-zeros", {"shift": 3}, "shared"),
        ("cifar10-shared-shift2-nearest", {"shift_fill": "nearest"}, "shared"),
        ("svhn-shared-shift3-nearest", {"shift": 3, "shift_fill": "nearest"}, "shared"),
        ("mnist-shared-shift3-nearest", {"shift": 3, "shift_fill": "nearest"}, "shared"),
        ("cifar10-each-shift3-nearest", {"shift": 3, "shift_fill": "nearest"}, "each"),
        ("affnist-each-shift4", {"shift": 4}, "each"),
        ("mnist-hybrid-shared-60", {"epochs": 60, "augment_noise": "normal"}, "shared"),
        ("mnist-hybrid-each-component", {}, "each"),
        ("mnist-hybrid-each", {"augment_noise": "normal"}, "each"),
        ("mnist-ghosts-each-still", {"shift": 0}, "each"),
        ("mnist-ghosts-each-250", {}, "each"),
        ("mnist-ghosts-class", {}, "class"),
        ("cifar10-each-float32-60", {"precision": "float32", "epochs": 60}, "each"),
        ("mnist-hitnet-each-60", {"epochs": 60}, "each"),
    ],
)
def test_an_arm_changes_what_it_says_and_nothing_else(name, changes, norm):
    arm = PAPER.experiments[name]
    other = PAPER.experiments[arm.arm_of]
    assert arm.full_recipe() == replace(other.full_recipe(), **changes)
    assert arm.full_options == {**other.full_options, "norm": norm}


def test_dropconnect_in_three_settings():
    settings = [experiment.full_recipe() for experiment in DROPCONNECT]
    assert [(recipe.shift, recipe.rotate, recipe.scale) for recipe in settings] == [
        (0, 0, 0),
        (2, 0, 0),
        (2, 15, 0.15),
    ]
    assert len({replace(recipe, shift=0, rotate=0.0, scale=0.0) for recipe in settings}) == 1
    assert {(experiment.wanted, experiment.network) for experiment in DROPCONNECT} == {(5, "dropconnect")}


def test_committees_are_disjoint_and_of_the_last_seeds():
    ours = PAPER.experiments["mnist-resnet9"]
    assert ours.committee_seeds == [tuple(range(first, first + 5)) for first in (20, 25, 30, 35, 40)]
    assert PAPER.experiments["mnist-hitnet-each"].committee_seeds == [(20, 21, 22, 23, 24)]
    assert PAPER.experiments["mnist-dropconnect"].committee_seeds == [(0, 1, 2, 3, 4)]
    assert PAPER.experiments["fashion-shared"].committee_seeds == []


def test_wanted_runs():
    wanted = {name: experiment.wanted for name, experiment in PAPER.experiments.items()}
    assert [wanted[name] for name in ("mnist-hitnet-shared", "mnist-hitnet-shared-decay", "mnist-n1-constant")] == [
        20
    ] * 3
    ghosts = {
        name: count
        for name, count in wanted.items()
        if name.startswith(("mnist-ghosts", "svhn-ghosts")) and "each-" not in name
    }
    assert set(ghosts.values()) == {20}
    cells = set(PAPER.claims) - {"mnist-hitnet-shared", "mnist-hitnet-shared-decay", "mnist-n1-constant"}
    assert all(wanted[name] >= 5 for name in cells)
    assert {wanted[f"mnist-{network}-class-60"] for network in ("hitnet", "n2", "n2b")} == {4}
    assert (wanted["fashion-capsnet"], wanted["cifar10-capsnet"]) == (2, 2)


def test_further_groups_have_other_seeds():
    first, second, third = (PAPER.experiments[f"mnist-ghosts-shared{end}"] for end in ("", "-second", "-third"))
    assert (first.seeds(), second.seeds(), third.seeds()) == (range(20), range(20, 40), range(40, 60))
    assert second.seeds(3) == range(20, 23)


def test_wanted_runs_and_time():
    for experiment in OURS:
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
        heads = [capsules.model, softmax.model]
        assert [config.head for config in heads] == ["hit-or-miss", "softmax"]
        assert heads[1].decoder == "none"


def test_digits_are_never_mirrored_and_affnist_is_shifted_as_in_the_paper():
    recipes = {experiment.name: experiment.full_recipe() for experiment in OURS}
    mirrored = {name for name, recipe in recipes.items() if recipe.flip}
    assert mirrored == {f"{data}-resnet9{end}" for data in ("cifar10", "fashion") for end in ("", "-softmax")}
    affnist = recipes["affnist-ours"]
    assert (affnist.shift, affnist.warp, affnist.invert, affnist.cutout) == (2, 0, False, 0)


def test_the_teacher_has_a_decoder_and_belongs_to_the_same_data():
    pupil = PAPER.experiments["mnist-ours"]
    teacher = PAPER.experiments[pupil.teacher]
    assert pupil.full_recipe().augment == "hybrid"
    assert (teacher.data, teacher.in_shape) == (pupil.data, pupil.in_shape)
    assert teacher.model.decoder == "conv"
