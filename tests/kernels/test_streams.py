"""Side streams of a main stream, with fake streams that record their calls; workspaces of captured graphs."""

import contextlib

import pytest
import torch

from hitnet import kernels as streams

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
    """The current stream, in a list; new streams are fakes."""
    streams_in_use = [FakeStream()]
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: streams_in_use[0])
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    return streams_in_use


def side_of(main):
    with streams.beside(CUDA) as join:
        join()
    return main.waited[-1]


def test_every_main_stream_has_a_branch_of_its_own(current):
    first, second = current[0], FakeStream()
    first_branch = side_of(first)
    assert first_branch.waited == [first]
    current[0] = second
    second_branch = side_of(second)
    assert second_branch is not first_branch
    assert second_branch.waited == [second]
    current[0], count = first, FakeStream.made
    assert side_of(first) is first_branch
    assert FakeStream.made == count


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
    """cuBLAS cuts products with few rows and long sums into parts, and adds them up in a workspace."""
    common, lanes, captured = torch.cuda.Stream(), [torch.cuda.Stream() for _ in range(4)], []
    for _ in lanes:
        x = torch.randn(128, 9216, device="cuda", dtype=torch.bfloat16)
        weight = torch.randn(9216, 160, device="cuda", dtype=torch.bfloat16)
        common.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(common):
            x @ weight  # cuBLAS initialises itself
        graph = torch.cuda.CUDAGraph()
        with streams.own_workspaces(), torch.cuda.graph(graph, stream=common):
            products = torch.stack([x @ weight for _ in range(100)])
        graph.replay()
        captured.append((graph, products, products.clone(), x, weight))  # graphs read these tensors
    torch.cuda.synchronize()
    for _ in range(20):
        for lane, (graph, *_) in zip(lanes, captured, strict=True):
            with torch.cuda.stream(lane):
                graph.replay()
    torch.cuda.synchronize()
    for _, products, alone, *_ in captured:
        assert torch.equal(products, alone)
