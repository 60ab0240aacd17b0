"""`hitnet export`, and `hitnet predict` with the file that it writes."""

import json

import pytest
from PIL import Image

from toy import toy_images


@pytest.fixture
def pictures(tmp_path):
    """Pictures of another size than the network's."""
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    for path, pixels in zip(paths, toy_images(6, seed=3).pixels, strict=True):
        Image.fromarray(pixels[0].numpy()).resize((20, 12)).save(path)
    return paths


def test_the_file_predicts_as_the_run_does(command, toy_run, tmp_path, pictures):
    run, _ = toy_run
    file = tmp_path / "new" / "bands.onnx"
    exported = command("export", run, "--out", file)
    assert (exported.code, exported.out) == (0, f"written: {file}\n")
    by_run, by_file = (json.loads(command("predict", which, *pictures, "--json").out) for which in (run, file))
    for expected, predicted in zip(by_run, by_file, strict=True):
        distances = {"distance", "runner_up_distance", "misfit"}
        assert {k: v for k, v in predicted.items() if k not in distances} == {
            k: v for k, v in expected.items() if k not in distances
        }
        for key in distances:
            assert predicted[key] == pytest.approx(expected[key], abs=1e-4)
    table = command("predict", file, *pictures).out
    assert table.splitlines()[0].split() == ["image", "class", "distance", "capsule", "runner-up", "distance"]
    assert len(table.splitlines()) == 8  # with a line on what near means


def test_mistakes_end_in_a_sentence(command, toy_run, tmp_path, pictures):
    run, _ = toy_run
    (tmp_path / "broken.onnx").write_bytes(b"not a graph")
    for words, message in [
        (("export", run, "--out", tmp_path / "x.pt"), "ends in .onnx as --out"),
        (("export", tmp_path, "--out", tmp_path / "x.onnx"), "is not a run folder"),
        (("predict", tmp_path / "broken.onnx", pictures[0]), "is not a readable ONNX file"),
        (("predict", tmp_path / "none.onnx", pictures[0]), "does not exist"),
    ]:
        ended = command(*words)
        assert (ended.code, ended.err.startswith("Error: "), message in ended.err) == (1, True, True), ended.err
        assert "Traceback" not in ended.err
