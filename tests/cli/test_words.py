"""Messages of the library in the words of the command line, and help of options from the definitions of the library."""

import logging
from dataclasses import fields

import pytest
from typer.main import get_command

from hitnet.audit import Judges
from hitnet.cli import OPTIONS, Messages, app, with_options
from hitnet.cli.audit import JUDGES
from hitnet.cli.audit import app as audit_app
from hitnet.cli.options import DATA, MODEL, RECIPE, TRAINING_DATA, attribute_help
from hitnet.cli.train import app as train_app
from hitnet.data import DataOptions, save_npz
from hitnet.models import ModelConfig
from hitnet.training import Recipe
from toy import toy_images


@pytest.fixture
def train_options(monkeypatch):
    """As if `hitnet train` had been called."""
    OPTIONS.clear()
    get_command(app).get_command(None, "train")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Use `resume`, or choose another `out`.", "Use --resume, or choose another --out."),
        ("Set `image_size`.", "Set --image-size."),
        ("`stream` = False keeps them in memory.", "--no-stream keeps them in memory."),
        ("Leave out `stream`.", "Leave out --stream."),
        ("set `augment` = hybrid.", "set --augment hybrid."),
        ("Call `reopen`; use `test` = images.", "Call reopen; use test = images."),
        ("See `hitnet models`.", "See `hitnet models`."),
    ],
)
def test_parameters_become_options(train_options, message, said):
    assert with_options(message) == said
    record = logging.LogRecord("hitnet", logging.INFO, "", 0, "%s", (message,), None)
    assert Messages().format(record) == said


def test_options_are_those_of_the_command_that_is_called(monkeypatch):
    OPTIONS.clear()
    assert with_options("`out`") == "out"
    get_command(app).get_command(None, "audit")
    assert {"networks", "out"} <= OPTIONS
    assert "format" not in OPTIONS
    get_command(app).get_command(None, "data")
    assert "as_json" in OPTIONS  # of all its commands
    assert with_options("`out`, `decoder`") == "--out, decoder"


def test_an_error_names_options_on_the_terminal(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_npz(toy_images(12), tmp_path / "bands.npz")
    (tmp_path / "file").write_text("mine")
    ended = command("train", "bands.npz", "--out", "file", "--model", "hitnet-small", "--device", "cpu")
    assert (ended.code, ended.err) == (1, "Error: file is a file; choose another --out.\n")
    ended = command("train", "bands.npz", "--stream", "--out", "run", "--device", "cpu")
    assert ended.err == "Error: Only a folder or a table of image files can be streamed. Leave out --stream.\n"


DEFINITIONS = {DataOptions: TRAINING_DATA, Recipe: RECIPE, ModelConfig: MODEL}


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_each_option_of_train_has_its_help_from_the_docstring(definition):
    options = {parameter.name: parameter for parameter in get_command(train_app).commands["train"].params}
    helps = attribute_help(definition)
    assert set(helps) == {entry.name for entry in fields(definition)}
    assert DEFINITIONS[definition].definition is definition
    for name in DEFINITIONS[definition].names:
        assert options[name].help == helps[name]
        assert len(helps[name]) > 5
        assert f"--{name.replace('_', '-')}" in options[name].opts


def test_options_of_the_audit_are_those_of_judges():
    assert set(DATA.names) < set(TRAINING_DATA.names)
    options = {parameter.name: parameter for parameter in get_command(audit_app).commands["audit"].params}
    helps = attribute_help(Judges)
    assert set(helps) == {entry.name for entry in fields(Judges)}
    for name in JUDGES.names:
        assert options[name].help == helps[name]


def test_help_is_the_first_sentence_on_an_attribute():
    class Example:
        """Options.

        Attributes:
            size: Height and width, e.g. 28 or
                32. None: the default.
            name: What it is called.
        """

    assert attribute_help(Example) == {"size": "Height and width, e.g. 28 or 32", "name": "What it is called"}
