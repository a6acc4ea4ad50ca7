"""matplotlib figures as PNG. matplotlib itself is imported only by the code."""

from __future__ import annotations

import base64
import io
import sys
from typing import Any

from . import importing


def is_figure(value: Any) -> bool:
    return isinstance(value, sys.modules["matplotlib.figure"].Figure)


def png(figure: Any) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return base64.b64encode(data.getvalue()).decode("ascii")


def take(figure: Any) -> str:
    """The picture of a figure that is shown as a value, and so not once more at the cell's end."""
    picture = png(figure)
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
    return picture


def show_all() -> None:
    """Shows every open figure, oldest first, and closes it."""
    from .kernel import publish

    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):
        return  # still being imported, by another thread or after an interrupt
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if figure.get_axes() or figure.texts:
            publish({"image/png": png(figure), "text/plain": repr(figure)})
    pyplot.close("all")


def install() -> None:
    """`plt.show()` shows figures here, whenever the code comes to import pyplot."""
    importing.change("matplotlib.pyplot", _show_here)


def _show_here(pyplot: Any) -> None:
    pyplot.show = lambda *_args, **_kwargs: show_all()
