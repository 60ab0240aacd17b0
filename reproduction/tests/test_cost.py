"""Estimates of how long runs take."""

from dataclasses import replace

import pytest
from toy_book import CPU, record

from reproduction import PAPER
from reproduction.cost import FLOAT32, H200, SPEEDS, Costs, convolution_work, duration_text, known_speed


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7100, "118 min"),
        (7200, "2.0 h"),
        (40_000, "11 h"),
        (5e6, "58 days"),
    ],
)
def test_times_in_words(seconds, words):
    assert duration_text(seconds) == words


def test_an_epoch_of_mnist_on_an_h200_takes_the_measured_time():
    # Ten networks of 20 epochs took 44.7 s with tests, eight of them side by side (benchmarks/TRIALS.md).
    seconds = Costs(H200).seconds(PAPER.experiments["mnist-hitnet-shared"], epochs=20)
    assert seconds == pytest.approx(4.47, rel=0.15)


def test_convolutions_counted_one_by_one():
    def naive(channels, side):
        first = side - 8
        second = (first - 9) // 2 + 1
        return first * first * 256 * 81 * channels + second * second * 256 * 81 * 256

    for channels, side in [(1, 28), (3, 32), (1, 40)]:
        assert convolution_work((channels, side, side)) == naive(channels, side)


def test_residual_networks_cost_in_proportion_to_pixels():
    costs, experiments = Costs(H200), PAPER.experiments
    mnist, cifar = experiments["mnist-resnet9"], experiments["cifar10-resnet9"]
    assert costs.seconds(mnist, epochs=1) == pytest.approx((60_000 + 10_000 / 3) / SPEEDS["hitnet-resnet9"][1])
    larger = (32 * 32) / (28 * 28)
    assert costs.seconds(cifar, epochs=1) == pytest.approx(larger * (50_000 + 10_000 / 3) / SPEEDS["hitnet-resnet9"][1])
    softmax = experiments["cifar10-resnet9-softmax"]
    measured = Costs(H200, [(cifar, record(cifar, device=H200, epoch_seconds=2.0, beside=8))])
    assert measured.seconds(softmax, epochs=3) == pytest.approx(6.0)  # until its own speed has been measured
    assert measured.seconds(experiments["mnist-ours"]) == costs.seconds(experiments["mnist-ours"])


def test_few_networks_do_not_fill_a_gpu():
    toy = PAPER.experiments["mnist-hitnet-shared"]
    single = Costs(H200, [(toy, record(toy, device=H200, epoch_seconds=1.0, beside=1))])
    many = Costs(H200, [(toy, record(toy, device=H200, epoch_seconds=1.0, beside=8))])
    assert single.seconds(toy) / single.fullness(toy, 1) == pytest.approx(many.seconds(toy))
    shares = [many.fullness(toy, beside) for beside in (1, 2, 4, 8, 12)]
    assert shares[0] == pytest.approx(SPEEDS["hitnet"][0] / SPEEDS["hitnet"][1])
    assert shares[0] < shares[1] < shares[2] < shares[3] == shares[4] == 1
    assert shares[2] - shares[1] == pytest.approx(2 * (shares[1] - shares[0]))
    assert shares[1] < many.fullness(PAPER.experiments["affnist-still-shared"], 2) <= 1
    assert Costs(CPU).fullness(toy, 1) == 1


def test_known_speeds():
    assert known_speed("capsnet", H200) < known_speed("hitnet", H200) < known_speed("n1", H200)
    assert known_speed("hitnet", CPU) == 253
    assert known_speed("hitnet", "Some other GPU") < known_speed("hitnet", H200)


def test_float32_is_slower_on_a_gpu():
    mixed, single = PAPER.experiments["mnist-ghosts-each-bfloat16"], PAPER.experiments["mnist-ghosts-each-float32"]
    for device in (H200, "Some other GPU"):
        assert Costs(device).seconds(single) == pytest.approx(Costs(device).seconds(mixed) / FLOAT32)
    assert Costs(CPU).seconds(single) == Costs(CPU).seconds(mixed)
    assert Costs(H200).fullness(single, 1) == 1
    # One run of 60 epochs took 85 s, its last test included.
    assert Costs(H200).seconds(PAPER.experiments["cifar10-each-float32-60"]) == pytest.approx(85, rel=0.15)


def test_a_speed_measured_in_another_precision_says_nothing():
    mixed, single = PAPER.experiments["mnist-ghosts-each-bfloat16"], PAPER.experiments["mnist-ghosts-each-float32"]
    measured = Costs(H200, [(mixed, record(mixed, device=H200, epoch_seconds=3.0, beside=8))])
    assert measured.seconds(mixed, readings=0) == pytest.approx(60.0)
    assert measured.seconds(single) == Costs(H200).seconds(single)


def test_a_measured_speed_is_preferred_to_a_known_one(book):
    toy, other = book.experiments["toy"], replace(book.experiments["toy"], name="other")
    known = Costs(CPU).seconds(toy)
    measured = Costs(CPU, [(toy, record(toy, epoch_seconds=7.0))])
    assert measured.seconds(toy) == pytest.approx(14.0)
    assert measured.seconds(other) == pytest.approx(14.0)  # the same network on the same images
    assert Costs("elsewhere", measured.measured).seconds(toy) != pytest.approx(14.0)
    assert known != pytest.approx(14.0)


def test_the_experiments_own_speed_is_preferred_to_its_networks(book):
    toy, other = book.experiments["toy"], replace(book.experiments["toy"], name="other")
    costs = Costs(CPU, [(toy, record(toy, epoch_seconds=7.0)), (other, record(other, epoch_seconds=1.0))])
    assert costs.seconds(other) == pytest.approx(2.0)


def test_fewer_images_and_epochs_cost_less(book):
    toy = book.experiments["toy"]
    costs = Costs(CPU)
    assert costs.seconds(toy, epochs=1) == pytest.approx(costs.seconds(toy) / 2)
    assert costs.seconds(toy, images=10) < costs.seconds(toy)


def test_a_teacher_costs_time():
    costs = Costs(H200)
    experiments = PAPER.experiments
    assert costs.seconds(experiments["mnist-hybrid-shared-component"]) > costs.seconds(
        experiments["mnist-hitnet-shared"]
    )


def test_work_outside_the_epochs_costs_time(book):
    toy = book.experiments["toy"]
    costs = Costs(CPU, [(toy, record(toy, epoch_seconds=48 + 12 / 3))])  # one image per second
    assert costs.seconds(replace(toy, read_ghosts=(1, 2))) == pytest.approx(costs.seconds(toy) + 2 * 48 / 3)
    fewer = replace(toy, each_epoch=6)
    assert Costs(CPU, costs.measured).seconds(fewer, epochs=1) > costs.seconds(toy, epochs=1)
