import pytest

from hitnet.errors import HitNetError, check_choice, unknown_name


def test_a_choice_that_does_not_exist_is_refused_with_those_that_do():
    check_choice("Recipe", "optimizer", "adam", ("adam", "sgd"))
    with pytest.raises(HitNetError, match=r"^Recipe: optimizer must be one of adam, sgd; got 'adma'\.$"):
        check_choice("Recipe", "optimizer", "adma", ("adam", "sgd"))


def test_an_unknown_name_is_told_with_the_nearest_one():
    assert str(unknown_name("model", "hitnte", ["n1", "hitnet"])) == (
        "There is no model named 'hitnte'. Did you mean 'hitnet'? Known: hitnet, n1."
    )
    assert "Did you mean" not in str(unknown_name("model", "zzz", ["n1", "hitnet"]))
