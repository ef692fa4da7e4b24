# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Writes pictures as PNG by matplotlib: those that are bars or curves."""
import io
import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  the backend comes first
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter  # noqa: E402
from matplotlib.transforms import offset_copy  # noqa: E402

from study.svg import SERIES  # noqa: E402
from study.whole_file import write_whole  # noqa: E402


LEGEND_BELOW = 36  # points: under the numbers and the name of the axis


def draw_bars(axes, figure):
    colors = dict(figure.legend)
    for row, (_, parts) in enumerate(figure.bars):
        left = 0.0
        for part, value in parts.items():
            if value > 0:
                axes.barh(row, value, left=left, color=colors[part], height=0.68)
                left += value
    axes.set_yticks(range(len(figure.bars)), [label for label, _ in figure.bars])
    axes.invert_yaxis()
    axes.legend([pyplot.Rectangle((0, 0), 1, 1, color=color) for _, color in figure.legend],
                [name for name, _ in figure.legend], frameon=False, fontsize=8, ncols=4, loc="upper center",
                bbox_to_anchor=(0.45, 0),
                bbox_transform=offset_copy(axes.transAxes, axes.figure, y=-LEGEND_BELOW, units="points"))


def draw_curves(axes, figure):
    for i, (label, line) in enumerate(figure.curves.items()):
        ideal = label == "ideal" or label.startswith("ideal of ")
        color, dashes = figure.styles.get(label, (SERIES[i % len(SERIES)], ""))
        axes.plot([x for x, _ in line], [y for _, y in line], label=f"_{label}" if ideal and label != "ideal" else label or "measured", linewidth=1.6,
                  color="#999999" if ideal else color,
                  linestyle="--" if ideal else (0, tuple(map(float, dashes.split()))) if dashes else "-",
                  marker="o" if len(line) < 20 and not ideal else None)
    if len(figure.curves) > 1:
        axes.legend(frameon=False, fontsize=8)
    if figure.key.startswith("scaling"):
        for axis in (axes.xaxis, axes.yaxis):
            axis.axes.set(**{f"{axis.axis_name}scale": "log"})
            axis.set_major_locator(LogLocator(base=2) if axis.axis_name == "x" else LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(ScalarFormatter())
            axis.set_minor_formatter(NullFormatter())


def write_pngs(folder, figures):
    """Writes FOLDER/KEY.png for each picture that has bars or curves."""
    os.makedirs(folder, exist_ok=True)
    for figure in figures:
        if not figure.bars and not figure.curves:
            continue
        height = 1.2 + 0.34 * len(figure.bars) if figure.bars else 3.6
        drawing, axes = pyplot.subplots(figsize=(8, max(2.2, height)))
        (draw_bars if figure.bars else draw_curves)(axes, figure)
        axes.set_title(figure.title, loc="left", fontsize=11)
        axes.set_xlabel(figure.axes[0])
        axes.set_ylabel(figure.axes[1])
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        picture = io.BytesIO()
        drawing.savefig(picture, format="png", dpi=150, bbox_inches="tight")
        write_whole(os.path.join(folder, f"{figure.key}.png"), picture.getvalue())
        pyplot.close(drawing)
