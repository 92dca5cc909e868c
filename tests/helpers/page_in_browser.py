"""An HTML page in a real browser."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="module", name="browser")
def chromium():
    """A Chromium that is installed, without network; the tests are skipped if there is none."""
    sync_api = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("there is no Chromium to test the page in (Debian: apt install chromium)")
    flags = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    flags += "--disable-background-networking --disable-component-update"
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags.split())
        yield browser
        browser.close()


class Shown:
    """A page in the browser, and its errors."""

    def __init__(self, browser, path, scheme="light"):
        size = {"width": 1300, "height": 900}
        self.context = browser.new_context(color_scheme=scheme, viewport=size, offline=True)
        self.page = self.context.new_page()
        self.faults, self.asked = [], []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(".maps-plot .plot-container")

    def choose(self, name, label):
        self.page.locator(f'[data-choice="{name}"]').select_option(label=label)

    def plot(self, panel=0):
        """Weights, and the tokens of rows and columns, as plotly has them."""
        return self.page.evaluate(
            """(n) => {
                const plot = document.querySelectorAll(".maps-plot")[n];
                const { z, zmax } = plot.data[0];
                return { z, zmax, keys: plot.layout.xaxis.ticktext,
                         queries: plot.layout.yaxis.ticktext };
            }""",
            panel,
        )

    def hover(self, row, column, panel=0):
        """What the page shows when the pointer is on a cell."""
        shown = self.plot(panel)
        box = self.page.locator(".maps-plot").nth(panel).locator(".nsewdrag").bounding_box()
        self.page.mouse.move(1, 1)
        self.page.wait_for_function("!document.querySelector('.hovertext')")
        self.page.mouse.move(
            box["x"] + box["width"] * (column + 0.5) / len(shown["keys"]),
            box["y"] + box["height"] * (row + 0.5) / len(shown["queries"]),
        )
        self.page.wait_for_selector(".hovertext")
        return self.page.locator(".hovertext").first.text_content()

    def colours(self):
        """The colours of the page's background and the plot's."""
        return self.page.evaluate(
            """() => [getComputedStyle(document.body).backgroundColor,
                      document.querySelector(".maps-plot").layout.paper_bgcolor]"""
        )
