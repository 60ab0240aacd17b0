import ast
import re
import tomllib
from pathlib import Path

import pytest

import hitnet
from hitnet.errors import DivergedError, HitNetError, MissingPackageError, check_choice, finite, unknown_name, whole

ROOT = Path(__file__).parents[1]


def test_a_choice_that_does_not_exist_is_refused_with_those_that_do():
    check_choice("Recipe", "optimizer", "adam", ("adam", "sgd"))
    with pytest.raises(HitNetError, match=r"^Recipe: optimizer must be one of adam, sgd; got 'adma'\.$"):
        check_choice("Recipe", "optimizer", "adma", ("adam", "sgd"))


@pytest.mark.parametrize(
    "wrong_value",
    [
        lambda: whole("Recipe", "epochs", 0, 1),
        lambda: finite("Recipe", "lr", "fast"),
        lambda: check_choice("Recipe", "optimizer", "adma", ("adam", "sgd")),
    ],
)
def test_an_error_about_a_value_is_a_value_error(wrong_value):
    with pytest.raises(ValueError, match=r"^Recipe: \w+ must be ") as caught:
        wrong_value()
    assert type(caught.value) is HitNetError
    assert issubclass(DivergedError, HitNetError)


@pytest.mark.parametrize(
    "missing",
    [
        lambda: hitnet.open_run("no/run"),
        lambda: hitnet.open_audit("no/audit"),
        lambda: hitnet.open_data("no/table.csv"),
        lambda: hitnet.data.read_image("no/picture.png", (1, 8, 8)),
        lambda: hitnet.open_backbone("efficientnet-lite0", weights="no/weights.safetensors"),
        lambda: hitnet.predict("no/network.onnx", []),
    ],
)
def test_a_missing_file_is_a_file_not_found(missing):
    with pytest.raises(FileNotFoundError, match=r"no/\w+") as caught:
        missing()
    assert isinstance(caught.value, HitNetError)


def test_what_to_install_is_an_extra_of_the_package():
    """The advice names packages, which is true for an installation of any kind."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    known = {re.split("[<>=\\[]", requirement)[0] for packages in extras.values() for requirement in packages}
    calls = [
        node
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("MissingPackageError", "need")
    ]
    assert len(calls) >= 6
    names = [each for call in calls for each in call.args[1:] if not isinstance(each, ast.Starred)]
    assert {package.value for package in names} <= known
    assert str(MissingPackageError("ONNX files", "onnx", "onnxruntime")) == (
        "ONNX files need onnx and onnxruntime: pip install onnx onnxruntime."
    )


def test_an_unknown_name_is_told_with_the_nearest_one():
    assert str(unknown_name("model", "hitnte", ["n1", "hitnet"])) == (
        "There is no model named 'hitnte'. Did you mean 'hitnet'? Known: hitnet, n1."
    )
    assert "Did you mean" not in str(unknown_name("model", "zzz", ["n1", "hitnet"]))


def test_of_many_known_names_some_are_listed():
    message = str(unknown_name("network", "n50", [f"net{i:02}" for i in range(40)]))
    assert message.startswith("There is no network named 'n50'. Did you mean 'net")
    assert message.endswith("net28, net29 and 10 more.")
