"""Put contact sheets that ``bochner voc show`` made side by side on pages for the docs: docs/figures/voc/.

bochner voc show VOCdevkit --set val --out results --images 20
python tools/contact_sheets.py results/show
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).resolve().parent.parent / "docs" / "figures" / "voc"
WIDTH, GAP, EACH, QUALITY = 720, 12, 5, 72
"""Pixels of a page and between sheets, sheets of a page, and the quality of its JPEG."""


def page(sheets: list[Path]) -> Image.Image:
    """Sheets below each other, reduced to the width of a page."""
    reduced = []
    for path in sheets:
        with Image.open(path) as sheet:
            height = round(sheet.height * WIDTH / sheet.width)
            reduced.append(sheet.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS))
    canvas = Image.new("RGB", (WIDTH, sum(sheet.height + GAP for sheet in reduced)), "white")
    top = 0
    for sheet in reduced:
        canvas.paste(sheet, (0, top))
        top += sheet.height + GAP
    return canvas


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="the folder show/ of the results")
    folder = parser.parse_args().folder
    every = sorted(folder.glob("*.png"))
    classes = [path for path in every if path.stem.startswith("best and worst of ")]
    images = [path for path in every if path not in classes]
    DOCS.mkdir(parents=True, exist_ok=True)
    for name, sheets in (("images", images), ("classes", classes)):
        for number, start in enumerate(range(0, len(sheets), EACH), start=1):
            target = DOCS / f"{name}-{number}.jpg"
            page(sheets[start : start + EACH]).save(target, quality=QUALITY, optimize=True)
            print(target, f"{target.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
