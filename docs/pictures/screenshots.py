"""Take the screenshots of the documentation, or of any page: light and dark, wide and narrow.

    fairseq-hybrid maps models/mma --sentence "Ein Hund jagt einen Mann." --write maps.html
    python docs/pictures/screenshots.py maps.html docs/pictures/maps --height 560

It needs playwright and a Chromium (Debian: chromium).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
WIDE, NARROW = 1280, 390


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path, help="a page of maps, report or compare")
    parser.add_argument("stem", type=Path, help="of the pictures' names")
    parser.add_argument("--narrow", action="store_true", help="also as on a phone")
    parser.add_argument("--full", action="store_true", help="the whole page, not its top")
    parser.add_argument("--height", type=int, default=900, metavar="PIXELS")
    args = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for width in (WIDE, NARROW)[: 1 + args.narrow]:
            for theme in ("light", "dark"):
                size = {"width": width, "height": args.height}
                page = browser.new_page(viewport=size, color_scheme=theme)
                page.goto(args.page.absolute().as_uri())
                ending = "" if width == WIDE else f"-{width}"
                path = args.stem.with_name(f"{args.stem.name}-{theme}{ending}.png")
                page.screenshot(path=path, full_page=args.full)
                print(path)
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
