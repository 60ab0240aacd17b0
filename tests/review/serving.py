"""A review server in a thread, and what a person sees and does on its page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from review_samples import TOKEN, open_folder

from hitnet.review.server import listen
from patience import PATIENCE, wait_until

KEYS = {"shift": "\ue008", "escape": "\ue00c", "enter": "\ue007", "down": "\ue015", "right": "\ue014", "left": "\ue012"}


@contextmanager
def serving(folder: Path, reviewer: str = "anna") -> Iterator[str]:
    """The address of a server for an audit folder."""
    review = open_folder(folder, reviewer)
    with listen(0) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(review.build(port=port, token=TOKEN), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/?token={TOKEN}"
        finally:
            server.should_exit = True
            thread.join(timeout=PATIENCE)


class ServedPage:
    """An open page of the server."""

    def __init__(self, browser, address: str) -> None:
        self.browser = browser
        browser.get(address)
        self.wait("document.querySelector('.row.current, .card.current')")

    def js(self, script: str, *arguments):
        return self.browser.execute_script(f"return {script}", *arguments)

    def wait(self, condition: str):
        """Wait until a condition holds, and return its value."""
        return wait_until(lambda: self.js(condition), condition)

    def keys(self, *keys: str, shift: bool = False) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            chain = ActionChains(self.browser)
            if shift:
                chain.key_down(KEYS["shift"])
            chain.send_keys(KEYS.get(key, key))
            if shift:
                chain.key_up(KEYS["shift"])
            chain.perform()

    def click(self, selector: str) -> None:
        from selenium.common.exceptions import StaleElementReferenceException

        for _ in range(5):  # the page may draw the element anew between finding and clicking it
            try:
                return self.browser.find_element("css selector", selector).click()
            except StaleElementReferenceException:
                continue
        raise AssertionError(f"{selector} never stays")

    def text(self, selector: str) -> str:
        return self.js("document.querySelector(arguments[0]).innerText", selector)

    def decided(self, count: int) -> None:
        """Wait until the page says that N images are decided."""
        self.wait(f"document.querySelector('#progress-count').textContent.startsWith('{count} of')")

    @property
    def current(self) -> int:
        return int(self.js("document.querySelector('.current').dataset.id"))

    def as_grid(self) -> None:
        self.keys("g")
        self.wait("document.querySelector('.card.current')")

    def cards(self) -> list[int]:
        """Ids of the visible cards, in the order of the page."""
        return [int(number) for number in self.js("[...document.querySelectorAll('.card')].map((c) => c.dataset.id)")]

    def selected(self) -> list[int]:
        script = "[...document.querySelectorAll('.card.selected')].map((c) => c.dataset.id)"
        return sorted(int(number) for number in self.js(script))

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] != "INFO"]
