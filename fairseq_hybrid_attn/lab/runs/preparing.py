"""Prepare the corpora that runs need."""

from __future__ import annotations

from pathlib import Path

from ...errors import UserError
from ..corpora import prepare
from ..files.processes import default_workers
from .workspace import Run, Workspace


def prepare_corpora(
    runs: list[Run], place: Workspace, downloads: Path | None
) -> tuple[list[Run], list[str]]:
    """Prepare the corpora of runs; return the runs whose corpus is ready, and what went wrong."""
    failed: set[Path] = set()
    said: set[str] = set()
    for folder in dict.fromkeys(run.corpus_folder for run in runs):
        users = [run for run in runs if run.corpus_folder == folder]
        run = users[0]
        print(f"\n== Corpus {run.settings.corpus} in {folder}", flush=True)
        try:
            if run.recipe.lacks_text:
                raise UserError("this recipe is for your own text; name its folder: --data DIR")
            other = next((user for user in users if user.recipe.digest != run.recipe.digest), None)
            if other is not None:
                raise UserError(
                    f"{run.name} and {other.name} want this corpus with different pairs or "
                    "subword-size; put each into its own profile"
                )
            prepare(
                run.recipe,
                folder,
                downloads=downloads or place.root / "downloads",
                workers=default_workers(),
                alignments=any(user.settings.needs_alignments for user in users),
                inside=place.root / "corpora",
            )
        except UserError as error:
            failed.add(folder)
            # Corpora of one licence have the same message; print it once.
            licence = run.recipe.licence or str(error)
            print(f"   {error}" if licence not in said else "   as above", flush=True)
            said.add(licence)
    ready = [run for run in runs if run.corpus_folder not in failed]
    return ready, [f"  corpus {folder.name}: not prepared, see above" for folder in failed]
