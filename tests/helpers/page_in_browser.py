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
        self.page.wait_for_selector(".maps-plot svg")

    def choose(self, name, label):
        self.page.locator(f'[data-choice="{name}"]').select_option(label=label)

    def plot(self, panel=0):
        """Weights (None: not allowed), and the tokens of rows and columns, as drawn; of several
        heads, those of the first."""
        return self.page.evaluate(
            """(n) => {
                const plot = document.querySelectorAll(".maps-plot")[n].querySelector("svg");
                const texts = (name) => [...plot.querySelectorAll(name)].map((e) => e.textContent);
                const [keys, queries] = [texts(".maps-key"), texts(".maps-query")];
                const z = queries.map(() => []);
                for (const { dataset } of plot.querySelectorAll("rect"))
                    z[dataset.row].push(dataset.weight === "" ? null : Number(dataset.weight));
                const top = document.querySelector('[data-text="top"]').textContent;
                return { z, zmax: Number(top), keys, queries };
            }""",
            panel,
        )

    def cell(self, row, column, panel=0):
        plot = self.page.locator(".maps-plot").nth(panel).locator("svg").first
        return plot.locator(f'[data-row="{row}"][data-column="{column}"]')

    def hover(self, row, column, panel=0):
        """What the page shows when the pointer is on a cell."""
        self.page.mouse.move(1, 1)
        self.page.wait_for_selector(".maps-tip", state="hidden")
        self.cell(row, column, panel).hover()
        self.page.wait_for_selector(".maps-tip")
        return self.page.locator(".maps-tip").text_content()

    def colours(self):
        """The colours of the page's background and of a cell of weight 0."""
        return self.page.evaluate(
            """() => {
                const rect = document.querySelector(".maps-plot rect").cloneNode();
                rect.style.fill = "var(--scale0)";
                document.querySelector(".maps-plot svg").append(rect);
                const fill = getComputedStyle(rect).fill;
                rect.remove();
                return [getComputedStyle(document.body).backgroundColor, fill];
            }"""
        )
