"""A folder of image files, a finished audit, and its page in a browser."""

import pytest
from audit_samples import make_folder, make_summary, mislabelled, quick_audit

from hitnet.audit.report import write_page
from hitnet.decisions.correction_files import read_corrections
from patience import wait_until


@pytest.fixture
def folder(tmp_path):
    """Image files of two classes."""
    files = [f"{name}/{i}.png" for name in ("cat", "dog") for i in range(5)] + ["cat/deep/0.png"]
    return make_folder(tmp_path / "photos", files)


@pytest.fixture(scope="session")
def audited(tmp_path_factory):
    """An audit of the toy set with wrong labels, in a folder."""
    return quick_audit(mislabelled(), out=tmp_path_factory.mktemp("audit") / "out")


class Review:
    """An open page, and what a person sees and does on it."""

    def __init__(self, browser, path):
        self.browser, self.path = browser, path
        self.empty = path.with_name("empty.html")  # it shares what browsers keep of files, and opens faster
        self.empty.write_text("")
        browser.get(self.empty.as_uri())
        browser.execute_script("localStorage.clear(); sessionStorage.clear()")
        browser.get(path.as_uri())

    # Read a text in a single call: the page may redraw between finding an element and reading it.

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.browser).send_keys(key).perform()

    def js(self, script, *arguments):
        return self.browser.execute_script(f"return {script}", *arguments)

    def wait(self, condition):
        """Wait until a condition holds, and return its value."""
        return wait_until(lambda: self.js(condition), condition)

    def wait_for_drawing(self):
        """Wait until the page has drawn what it was told to."""
        frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        self.browser.execute_async_script(frames)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def element(self, selector):
        return self.browser.find_element("css selector", selector)

    def text(self, selector):
        return self.js("document.querySelector(arguments[0]).innerText", selector)

    def click(self, selector):
        self.element(selector).click()

    @property
    def current(self):
        return int(self.js("document.querySelector('.row.current').dataset.id"))

    @property
    def chips(self):
        texts = self.js("[...document.querySelectorAll('#chips button')].map((chip) => chip.innerText)")
        return [text.replace("\n", " ") for text in texts]

    @property
    def shown(self):
        return int(self.text("#count b").replace(",", ""))

    def exported(self):
        """The decisions in the page's export, as {id: (decision, label)}."""
        self.click("#open-export")
        text = self.js("document.querySelector('#export-text').value")
        self.click("#export [data-close]")
        if not text:
            return {}
        path = self.path.with_suffix(".jsonl")
        path.write_text(text, encoding="utf-8", newline="")
        return {change.id: (change.decision, change.label) for _, change in read_corrections(path).corrections}

    def complaints(self):
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] != "INFO"]


@pytest.fixture
def open_review(browser, tmp_path):
    """Write an audit's page and open it; afterwards the console must be free of errors."""
    opened = []

    def open_page(audit, name="page.html", **options):
        table, distances, pixels, names = audit
        path = tmp_path / name
        options = {"title": "An audit", "summary": make_summary(table, names), **options}
        write_page(path, table, distances, pixels, **options)
        opened.append(Review(browser, path))
        return opened[-1]

    yield open_page
    assert opened[-1].complaints() == []
