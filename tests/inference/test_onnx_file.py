"""ONNX files: predictions without PyTorch's networks; damaged and malicious files are refused in words."""

import resource
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from PIL import Image

import hitnet
from hitnet.errors import HitNetError
from hitnet.inference import DecisionRule, open_onnx
from hitnet.inference.onnx_file import CHECKSUM, About, write_about


def about_of(in_shape, class_names, radii, *, format):
    facts = {"class_names": class_names, "nearest_wins": True, "radii": radii, "format": format}
    return About(in_shape=in_shape, model_name="m", data="d", hitnet="0", **facts)


ABOUT = about_of((1, 4, 4), ("a", "b"), (0.1, 0.9), format=1)
NAMES = ["images"], ["distances"]


def graph_of(nodes, weights=()):
    images = helper.make_tensor_value_info("images", onnx.TensorProto.UINT8, ["n", 1, 4, 4])
    distances = helper.make_tensor_value_info("distances", onnx.TensorProto.FLOAT, ["n", 2])
    return helper.make_graph(nodes, "graph", [images], [distances], list(weights))


def network_graph():
    """The distances are the mean pixel in [0, 1], times 2 and times 4."""
    weights = [
        numpy_helper.from_array(np.array([2 / 255, 4 / 255], np.float32)[None], "scale"),
        numpy_helper.from_array(np.array([-1, 16], np.int64), "flat"),
    ]
    nodes = [
        helper.make_node("Cast", ["images"], ["floats"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Reshape", ["floats", "flat"], ["rows"]),
        helper.make_node("ReduceMean", ["rows"], ["means"], axes=[1]),
        helper.make_node("MatMul", ["means", "scale"], ["distances"]),
    ]
    return graph_of(nodes, weights)


def save(path, graph, about=ABOUT, domains=("",)):
    versions = [helper.make_opsetid(domain, 17 if not domain else 1) for domain in domains]
    model = helper.make_model(graph, opset_imports=versions, ir_version=8)
    if about is not None:
        write_about(model, about)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def file(tmp_path):
    return save(tmp_path / "network.onnx", network_graph())


def grey(path, level):
    Image.new("L", (4, 4), level).save(path)
    return path


def test_the_nearest_class_wins_or_none(file, tmp_path):
    paths = [grey(tmp_path / f"{level}.png", level) for level in (0, 51, 204)]
    black, dark, bright = hitnet.predict(file, paths)
    assert (black.label, black.verdict, black.image) == ("a", "hit", str(paths[0]))
    assert (dark.label, dark.verdict, dark.runner_up) == ("a", "near", "b")
    assert (dark.distance, dark.runner_up_distance) == (pytest.approx(0.4), pytest.approx(0.8))
    assert (bright.label, bright.verdict) == (None, "miss")
    assert hitnet.predict(file, []) == []


def test_many_images_are_run_in_batches(file, monkeypatch):
    network = open_onnx(file)
    monkeypatch.setattr("hitnet.inference.onnx_file.BATCH_PIXELS", 33)
    levels = np.arange(5, dtype=np.uint8)
    distances = network.distances(np.broadcast_to(levels[:, None, None, None], (5, 1, 4, 4)))
    np.testing.assert_allclose(distances[:, 0], levels * 2 / 255, atol=1e-6)
    assert network.distances(np.empty((0, 1, 4, 4), np.uint8)).shape == (0, 2)


def test_no_network_of_pytorch_is_built(file, tmp_path, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a network was built")

    monkeypatch.setattr("hitnet.models.network.Network.__init__", refuse)
    assert hitnet.predict(file, [grey(tmp_path / "x.png", 0)])[0].label == "a"


def test_onnx_files_run_on_the_cpu(file):
    with pytest.raises(HitNetError, match="ONNX files run on the CPU"):
        hitnet.predict(file, [], device="cuda")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named(file, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(HitNetError, match="need onnx and onnxruntime: pip install onnx onnxruntime"):
        open_onnx(file)


def test_damage_is_found_or_changes_nothing(file):
    content = bytearray(file.read_bytes())
    pixels = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    expected, undetected = open_onnx(file).distances(pixels), 0
    for place in range(0, len(content), 5):
        damaged = content.copy()
        damaged[place] ^= 0x41
        file.write_bytes(damaged)
        try:
            network = open_onnx(file)
        except HitNetError as error:
            assert "network.onnx" in str(error)  # noqa: PT017
        else:  # the name of the checksum's entry was hit
            np.testing.assert_array_equal(network.distances(pixels), expected)
            undetected += 1
    assert undetected <= len(CHECKSUM)


@pytest.mark.parametrize("content", [b"", b"no graph", b"\x00" * 100])
def test_other_files_are_refused(file, content):
    file.write_bytes(content)
    with pytest.raises(HitNetError, match=r"network\.onnx"):
        open_onnx(file)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(HitNetError, match="does not exist"):
        hitnet.predict(tmp_path / "x.onnx", [])
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(HitNetError, match="is not a run folder"):
        hitnet.predict(tmp_path / "folder.onnx", [])


def test_files_of_other_programs_are_refused(tmp_path):
    with pytest.raises(HitNetError, match="not an ONNX file of hitnet"):
        open_onnx(save(tmp_path / "x.onnx", network_graph(), about=None))


def without_checksum(path):
    model = onnx.load(path)
    entries = {entry.key: entry.value for entry in model.metadata_props if entry.key != CHECKSUM}
    helper.set_model_props(model, entries)
    path.write_bytes(model.SerializeToString())
    return model


def test_a_file_that_was_changed_on_purpose_is_read_without_its_checksum(file):
    model = without_checksum(file)
    model.graph.doc_string = "changed"
    file.write_bytes(model.SerializeToString())
    assert open_onnx(file).class_names == ("a", "b")


def external(name="secret"):
    tensor = onnx.TensorProto(name="scale", data_type=onnx.TensorProto.FLOAT, dims=[1, 2])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=name)
    return tensor


def hidden_in_a_constant(graph):
    del graph.initializer[0]
    graph.node.insert(0, helper.make_node("Constant", [], ["scale"], value=external()))


def hidden_in_a_branch(graph):
    output = helper.make_tensor_value_info("inner", onnx.TensorProto.FLOAT, [1, 2])
    branch = helper.make_graph([helper.make_node("Constant", [], ["inner"], value=external())], "b", [], [output])
    del graph.initializer[0]
    yes = numpy_helper.from_array(np.array(True), "yes")
    graph.initializer.append(yes)
    graph.node.insert(0, helper.make_node("If", ["yes"], ["scale"], then_branch=branch, else_branch=branch))


def as_weights(graph):
    graph.initializer[0].CopyFrom(external())


@pytest.mark.parametrize("hide", [as_weights, hidden_in_a_constant, hidden_in_a_branch])
def test_no_other_file_is_read_for_weights(tmp_path, monkeypatch, hide):
    (tmp_path / "secret").write_bytes(np.ones(2, np.float32).tobytes())
    monkeypatch.chdir(tmp_path)
    graph = network_graph()
    hide(graph)
    with pytest.raises(HitNetError, match="refers to another file"):
        open_onnx(save(tmp_path / "x.onnx", graph))


def test_operators_of_others_are_not_run(tmp_path):
    with pytest.raises(HitNetError, match=r"\(com\.microsoft\)"):
        open_onnx(save(tmp_path / "x.onnx", network_graph(), domains=("", "com.microsoft")))


def value(name, shape=None, kind=onnx.TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def test_a_graph_that_never_ends_is_not_run(tmp_path, monkeypatch):
    """Also within a branch, and by functions, which may call each other."""
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *a, **k: pytest.fail("it was opened"))
    boolean = onnx.TensorProto.BOOL
    nodes = [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Identity", ["x"], ["y"])]
    inputs = [value("i", [], onnx.TensorProto.INT64), value("go", [], boolean), value("x")]
    body = helper.make_graph(nodes, "body", inputs, [value("again", [], boolean), value("y")])
    loop = helper.make_node("Loop", ["", "true", "floats"], ["distances"], body=body)
    branch = helper.make_graph([loop], "branch", [], [value("distances")])
    nested = helper.make_node("If", ["true"], ["distances"], then_branch=branch, else_branch=branch)
    start = helper.make_node("Cast", ["images"], ["floats"], to=onnx.TensorProto.FLOAT)
    for node in (loop, nested):
        path = save(tmp_path / "l.onnx", graph_of([start, node], [numpy_helper.from_array(np.array(True), "true")]))
        with pytest.raises(HitNetError, match=r"uses the operator Loop.* may never end"):
            open_onnx(path)
    model = helper.make_model(network_graph(), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.functions.append(helper.make_function("", "f", ["a"], ["b"], nodes[1:], [helper.make_opsetid("", 17)]))
    write_about(model, ABOUT)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(HitNetError, match=r"uses functions"):
        open_onnx(path)


@pytest.mark.parametrize("operator", ["ConstantOfShape", "Expand"])
def test_a_graph_that_asks_for_too_much_memory_is_refused(tmp_path, operator):
    """10 GB of zeros or ones, in a size that is computed or constant."""
    size = numpy_helper.from_array(np.array([2500, 1000, 1000], np.int64), "size")
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    graph = network_graph()
    graph.node[-1].output[0] = "small"
    graph.node.extend(
        [
            helper.make_node(operator, [*(["one"] if operator == "Expand" else []), "size"], ["huge"]),
            helper.make_node("ReduceMean", ["huge"], ["mean"], axes=[0, 1, 2], keepdims=0),
            helper.make_node("Add", ["small", "mean"], ["distances"]),
        ]
    )
    graph.initializer.extend([size, one])
    network = open_onnx(save(tmp_path / "h.onnx", graph))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(HitNetError, match=r"cannot be run: .*memory"):
        network.judge(np.zeros((1, 1, 4, 4), np.uint8))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kB


def test_a_network_that_computes_no_numbers_is_refused(tmp_path):
    graph = network_graph()
    graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((1, 2), np.nan, np.float32), "scale"))
    with pytest.raises(HitNetError, match="computes values that are not finite"):
        hitnet.predict(save(tmp_path / "n.onnx", graph), [grey(tmp_path / "x.png", 0)])


def test_a_graph_that_cannot_be_run_is_refused(tmp_path):
    node = helper.make_node("NoSuchOperator", ["images"], ["distances"])
    with pytest.raises(HitNetError, match="that ONNX Runtime can run"):
        open_onnx(save(tmp_path / "x.onnx", graph_of([node])))


@pytest.mark.parametrize(
    ("shape", "names", "version"),
    [((1, 4), ("a", "b"), 1), ((7, 4, 4), ("a", "b"), 1), ((1, 4, 4), ("a",), 1), ((1, 4, 4), ("a", "b"), 2)],
)
def test_odd_metadata_is_refused(tmp_path, shape, names, version):
    about = about_of(shape, names, None, format=version)
    with pytest.raises(HitNetError):
        open_onnx(save(tmp_path / "x.onnx", network_graph(), about))


def test_metadata_that_does_not_fit_the_graph_is_refused(tmp_path):
    about = about_of((1, 4, 4), ("a", "b", "c"), None, format=1)
    network = open_onnx(save(tmp_path / "x.onnx", network_graph(), about))
    with pytest.raises(HitNetError, match=r"distances .*\(2, 2\)"):
        network.distances(np.zeros((2, 1, 4, 4), np.uint8))
    with pytest.raises(HitNetError, match="cannot be run"):
        network.distances(np.zeros((2, 1, 5, 5), np.uint8))


def test_the_largest_wins_where_the_nearest_does_not():
    rule = DecisionRule(("a", "b", "c"), False, None)
    prediction = rule.predict("x", np.array([0.2, 0.1, 0.7]), None)
    assert (prediction.label, prediction.runner_up, prediction.verdict) == ("c", "a", None)
