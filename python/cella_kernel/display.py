"""MIME bundles: how a value wants to be shown, asked by the names that Jupyter uses."""

from __future__ import annotations

import base64
import sys
import traceback
from typing import Any, Dict, Tuple

from . import figures
from .values import portable

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
# MIME types of one bundle, beside the text that every display has, and the characters of each.
_MOST_FORMS = 99
_LONGEST_MIME = 255


def bundle(value: Any) -> Tuple[Dict[str, Any], int]:
    """The rich forms of a value by MIME type, none where it has only its repr; and how many were too many."""
    kind = type(value)
    if kind.__module__ == "builtins" or isinstance(value, type):
        return {}, 0
    if "matplotlib.figure" in sys.modules and figures.is_figure(value):
        return {"image/png": figures.take(value)}, 0
    forms: Dict[str, Any] = {}
    left_out = 0
    whole = _ask(value, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(whole, tuple):
        whole = whole[0] if whole else None
    if isinstance(whole, dict):
        fitting = [mime for mime in whole if len(str(mime)) <= _LONGEST_MIME][:_MOST_FORMS]
        left_out = len(whole) - len(fitting)
        forms.update((str(mime), portable_form(whole[mime])) for mime in fitting)
    for method, mime in _METHODS:
        if mime not in forms and len(forms) < _MOST_FORMS:
            data = _ask(value, method)
            if isinstance(data, tuple):
                data = data[0] if data else None
            if data is not None:
                forms[mime] = portable_form(data)
    return forms, left_out


def portable_form(data: Any) -> Any:
    """Text stays text, bytes become base64, anything else must be made of JSON's types."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return base64.b64encode(data).decode("ascii")
    if isinstance(data, str):
        return str.__str__(data)
    return portable(data)


def _ask(value: Any, method: str, **arguments: Any) -> Any:
    # On the class, as for every special method: an object that answers to any attribute has no rich form.
    if getattr(type(value), method, None) is None:
        return None
    try:
        return getattr(value, method)(**arguments)
    except Exception:
        traceback.print_exc()
        return None
