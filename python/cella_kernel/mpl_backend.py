"""matplotlib's backend in a kernel: draws with Agg, and `plt.show()` shows the figures where they are asked for."""

from __future__ import annotations

from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg

from .figures import show_all

FigureCanvas = FigureCanvasAgg


def show(*_args: Any, **_kwargs: Any) -> None:
    show_all()
