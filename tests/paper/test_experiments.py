"""The experiments: what is wanted, by which recipes."""

from dataclasses import replace

from hitnet.losses import MISS_WEIGHT
from hitnet.models import choose_model
from hitnet.paper import PAPER
from hitnet.paper.cost import H200, Costs
from hitnet.paper.experiments import OUR_EXPERIMENTS
from hitnet.paper.sections import SOFTMAX_PAIRS
from hitnet.training import RECIPES


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
    ours = {experiment.name for experiment in OUR_EXPERIMENTS}
    shorter = {"mnist-ghosts", "svhn-ghosts", "mnist-capsnet", "mnist-hitnet-50"} | ours
    assert {recipe.epochs for name, recipe in recipes.items() if name not in shorter} == {250}


def test_wanted_runs():
    wanted = {name: experiment.wanted for name, experiment in PAPER.experiments.items()}
    assert [wanted[f"mnist-{network}-constant"] for network in ("hitnet", "n1", "n2", "n2b")] == [20, 5, 5, 5]
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
