import torch

from hitnet.data import open_data
from hitnet.data.known import sample


def test_splits():
    whole, train, test = (open_data("mnist-sample").load(split) for split in ("all", "train", "test"))
    assert (len(whole), len(train), len(test)) == (10000, 8000, 2000)
    assert whole.labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert test.ids[:3].tolist() == [4, 9, 14]
    assert torch.equal(whole.labels[test.ids], test.labels)
    assert torch.equal(whole.pixels[train.ids], train.pixels)
    assert set(train.ids.tolist()).isdisjoint(test.ids.tolist())
    assert len(test.labels.unique()) == 10


def test_judgements_agree_with_the_labels():
    labels = open_data("mnist-sample").load("all").labels
    table = sample.judgements()
    assert len(table) == 100
    assert table["id"].is_monotonic_increasing
    assert labels[table["id"].tolist()].tolist() == table["given_label"].tolist()
    assert (table[["votes_given", "votes_guessed", "votes_neither"]].sum(axis=1) == 5).all()


def test_label_errors():
    errors = sample.label_errors()
    assert len(errors) == 15
    assert errors["id"].tolist()[:4] == [947, 1621, 1901, 2130]
    corrected = errors.dropna(subset="corrected_label")
    assert len(corrected) == 10
    assert (corrected["corrected_label"] != corrected["given_label"]).all()
    assert int(errors.set_index("id").loc[947, "corrected_label"]) == 9
