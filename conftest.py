"""Settings and fixtures that all tests share."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from arithmetic import own_arithmetic
from hitnet import Images
from hitnet.cli import app, main, terminal
from hitnet.features.heads import HeadOptions
from patience import PATIENCE
from toy import toy_images

pytest_plugins = ("hanging",)  # ends tests that hang

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--window-size=1366,768"),
)

# The networks of the tests are too small for several cores. Processes that tests start inherit the setting.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels are then interpreted; Triton reads this when it is imported


@pytest.fixture(autouse=True)
def _own_arithmetic():
    """Leave oneDNN as it was before each test."""
    with own_arithmetic():
        yield


def missing_gpu() -> str | None:
    """What the tests marked `gpu` lack here, and how to install it; None if nothing is missing."""
    if torch.cuda.is_available():
        return None
    return "PyTorch finds no NVIDIA GPU. These tests need one, with its driver and a CUDA build of PyTorch: https://pytorch.org/get-started"


def missing_browser() -> str | None:
    """What the tests marked `browser` lack here, and how to install it; None if nothing is missing."""
    programs = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if programs:
        how = "`apt-get install chromium chromium-driver`, or as your system installs Chromium"
        return f"{' and '.join(programs)} not found on the PATH. To run the browser tests: {how}"
    if importlib.util.find_spec("selenium") is None:
        return "The Python package selenium is missing. To run the browser tests: `pip install selenium`"
    return None


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a browser; long files go first, so that none runs alone at the end."""
    seconds: Counter[Path] = Counter()
    for item in items:
        if "started_browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        slow = item.get_closest_marker("slow")
        seconds[item.path] += slow.kwargs.get("seconds", 60) if slow else 10 * bool(item.get_closest_marker("browser"))
    items.sort(key=lambda item: -seconds[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that cannot run here; with HITNET_REQUIRE_BROWSER=1 a missing browser is an error instead."""
    if item.get_closest_marker("gpu") and (reason := missing_gpu()):
        pytest.skip(reason)
    if item.get_closest_marker("browser") and (reason := missing_browser()):
        if os.environ.get("HITNET_REQUIRE_BROWSER") == "1":
            pytest.fail(f"HITNET_REQUIRE_BROWSER=1, but {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Features that tests compute are kept away from the user's own."""
    os.environ["HITNET_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def quick_heads(monkeypatch):
    """Heads learn for 20 steps, not 300: enough where a test does not look at how good they are."""
    monkeypatch.setattr(HeadOptions, "steps_for", lambda *_: 20)


@pytest.fixture
def matlab_here(monkeypatch):
    """Read Matlab files in this process: to start one per file, as hitnet does, takes longer than to read it."""
    from hitnet.data.known import makers, matlab_reader

    def run(command, **options):
        try:
            matlab_reader.main(*command[3:])
        except Exception as error:  # as the reader's own process does
            return subprocess.CompletedProcess(command, 1, "", str(error) or type(error).__name__)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(makers, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr("resource.setrlimit", lambda *limits: None)  # of the reader's memory


@pytest.fixture
def toy() -> Images:
    return toy_images()


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command line as the installed program does, into a pipe."""
    for console in (terminal.console, terminal.errors):
        monkeypatch.setattr(console, "width", 1000)
    # The option --data-dir sets it; what a monkeypatch has set once, it puts back.
    before = os.environ.get("HITNET_DATA")
    monkeypatch.setenv("HITNET_DATA", before or "")
    if before is None:
        monkeypatch.delenv("HITNET_DATA")

    def call(*arguments, program=app):
        monkeypatch.setattr(sys, "argv", ["hitnet", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main(program)
        printed = capsys.readouterr()
        return Ended(end.value.code or 0, printed.out, printed.err)

    return call


@pytest.fixture(scope="session")
def started_browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    home = tmp_path_factory.mktemp("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={home / 'profile'}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(home)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_script_timeout(PATIENCE)
    driver.set_page_load_timeout(PATIENCE)
    driver.downloads = home
    yield driver
    driver.quit()


@pytest.fixture
def browser(started_browser):
    """A real browser with an empty page and an empty log; tests that use it get the marker `browser`.

    The page of an earlier test goes on asking its server, which is gone, until it is left.
    """
    started_browser.get("about:blank")
    started_browser.get_log("browser")
    return started_browser
