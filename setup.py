"""The package's long description; everything else is in pyproject.toml.

It is the README.  Where its repository is known, as in GitHub's workflows, its links lead there.
"""

import os
import re
from pathlib import Path

from setuptools import setup

README = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
if repository := os.environ.get("GITHUB_REPOSITORY"):
    address = f"https://github.com/{repository}/"
    pictures = re.compile(r'((?:src|srcset)=")(?!https:)')
    links = re.compile(r"(\]\()(?!https:|#)")
    README = links.sub(rf"\1{address}blob/HEAD/", pictures.sub(rf"\1{address}raw/HEAD/", README))

setup(long_description=README, long_description_content_type="text/markdown")
