"""Branches beside the main stream, with streams that only note what they are asked; workspaces of captured graphs."""

import contextlib

import pytest
import torch

from hitnet.kernels import streams

CUDA = torch.device("cuda")


class FakeStream:
    made = 0

    def __init__(self, device=CUDA):
        FakeStream.made += 1
        self.device, self.waited = device, []

    def wait_stream(self, other):
        self.waited.append(other)


@pytest.fixture
def current(monkeypatch):
    """The current stream, in a list; streams that are made are fakes."""
    found = [FakeStream()]
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: found[0])
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    return found


def side_of(main):
    with streams.beside(CUDA) as join:
        join()
    return main.waited[-1]


def test_every_main_stream_has_a_branch_of_its_own(current):
    one, two = current[0], FakeStream()
    beside_one = side_of(one)
    assert beside_one.waited == [one]
    current[0] = two
    beside_two = side_of(two)
    assert beside_two is not beside_one
    assert beside_two.waited == [two]
    current[0], made = one, FakeStream.made
    assert side_of(one) is beside_one
    assert FakeStream.made == made


def test_without_a_gpu_work_is_done_at_once():
    with streams.beside(torch.device("cpu")) as join:
        assert join() is None


def test_a_captured_graph_has_workspaces_that_no_other_had_or_will_have(monkeypatch):
    events = []
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: events.append("cleared"), raising=False)

    def failing_capture():
        events.append("captured")
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"), streams.own_workspaces():
        failing_capture()
    assert events == ["cleared", "captured", "cleared"]


@pytest.mark.gpu
def test_graphs_captured_on_the_same_stream_run_side_by_side():
    """Products of few rows over a long sum are cut into parts, which are added up in a workspace."""
    common, lanes, made = torch.cuda.Stream(), [torch.cuda.Stream() for _ in range(4)], []
    for _ in lanes:
        x = torch.randn(128, 9216, device="cuda", dtype=torch.bfloat16)
        weight = torch.randn(9216, 160, device="cuda", dtype=torch.bfloat16)
        common.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(common):
            x @ weight  # cuBLAS makes itself ready
        graph = torch.cuda.CUDAGraph()
        with streams.own_workspaces(), torch.cuda.graph(graph, stream=common):
            products = torch.stack([x @ weight for _ in range(100)])
        graph.replay()
        made.append((graph, products, products.clone(), x, weight))  # graphs read where these are
    torch.cuda.synchronize()
    for _ in range(20):
        for lane, (graph, *_) in zip(lanes, made, strict=True):
            with torch.cuda.stream(lane):
                graph.replay()
    torch.cuda.synchronize()
    for _, products, alone, *_ in made:
        assert torch.equal(products, alone)
