import torch

from hitnet.training.batches import epoch_seed, own_randomness, random_state, set_random_state

CPU = torch.device("cpu")


def test_every_process_and_epoch_has_draws_of_its_own():
    seeds = [epoch_seed(7, epoch, rank) for epoch in range(1, 300) for rank in range(8)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert [epoch_seed(7, epoch, 0) for epoch in (1, 2)] == [7_000_022, 7_000_023]


def test_a_state_is_restored_under_its_mark_only():
    state = random_state(CPU, "rank1.")
    drawn = torch.rand(3)
    set_random_state(state)  # as in a checkpoint that has no state of the first process
    assert not torch.equal(torch.rand(3), drawn)
    set_random_state(state, "rank1.")
    assert torch.equal(torch.rand(3), drawn)


def test_the_callers_state_comes_back():
    before = torch.get_rng_state()
    with own_randomness():
        torch.manual_seed(5)
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
