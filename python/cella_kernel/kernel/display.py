"""MIME bundles: the rich forms of a value, from the methods that Jupyter also calls; matplotlib figures as PNG.

Only user code imports matplotlib.
"""

from __future__ import annotations

import base64
import io
import sys
import traceback
from typing import Any, Callable, Dict, Optional, Tuple

from ..protocol import LONGEST_NAME, MOST_MIME_TYPES
from ..values import portable
from . import execution_context

_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_pdf_", "application/pdf"),
)
# Each display also has a text form.
_MOST_FORMS = MOST_MIME_TYPES - 1


def bundle(value: Any) -> Tuple[Dict[str, Any], int]:
    """The rich forms of a value by MIME type (none if it has only a repr), and how many were left out as too many."""
    kind = type(value)
    if kind.__module__ == "builtins" or isinstance(value, type):
        return {}, 0
    if "matplotlib.figure" in sys.modules and _is_figure(value):
        return {"image/png": _take_figure(value)}, 0
    forms: Dict[str, Any] = {}
    left_out = 0
    whole = _ask(value, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(whole, tuple):
        whole = whole[0] if whole else None
    if isinstance(whole, dict):
        fitting = [mime for mime in whole if len(str(mime)) <= LONGEST_NAME][:_MOST_FORMS]
        left_out = len(whole) - len(fitting)
        forms.update((str(mime), _portable_form(whole[mime])) for mime in fitting)
    for method, mime in _METHODS:
        if mime not in forms and len(forms) < _MOST_FORMS:
            data = _ask(value, method)
            if isinstance(data, tuple):
                data = data[0] if data else None
            if data is not None:
                forms[mime] = _portable_form(data)
    return forms, left_out


def _portable_form(data: Any) -> Any:
    """Text as it is, bytes as base64, and anything else as a value that can be sent."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return base64.b64encode(data).decode("ascii")
    if isinstance(data, str):
        return str.__str__(data)
    return portable(data)


def _ask(value: Any, method: str, **arguments: Any) -> Any:
    # Looked up on the class, as special methods are: an object that has every attribute has no rich form.
    if getattr(type(value), method, None) is None:
        return None
    try:
        return getattr(value, method)(**arguments)
    except Exception:
        traceback.print_exc()
        return None


def _is_figure(value: Any) -> bool:
    return isinstance(value, sys.modules["matplotlib.figure"].Figure)


def _png(figure: Any) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return base64.b64encode(data.getvalue()).decode("ascii")


def _take_figure(figure: Any) -> str:
    """The picture of a figure that is the cell's value. Closes the figure, so that it is not shown again."""
    picture = _png(figure)
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
    return picture


def show_figures() -> None:
    """Shows every open figure, oldest first, and closes it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if _publish is None or pyplot is None or not hasattr(pyplot, "get_fignums"):
        return  # the import is still running, or was interrupted
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if figure.get_axes() or figure.texts:
            _publish({"image/png": _png(figure), "text/plain": repr(figure)})
    pyplot.close("all")


# Sends a MIME bundle to the host.
_publish: Optional[Callable[[Dict[str, Any]], None]] = None


def install_figures(publish: Callable[[Dict[str, Any]], None]) -> None:
    """Has `plt.show()` show figures with `publish` as soon as the code imports pyplot."""
    global _publish
    _publish = publish
    execution_context.change_on_import("matplotlib.pyplot", _show_here)


def _show_here(pyplot: Any) -> None:
    pyplot.show = lambda *_args, **_kwargs: show_figures()
