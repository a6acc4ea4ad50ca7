"""pandas frames and series as JSON that preserves types, index, labels and missing values."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any, Dict, List

_FORMAT = "cella-frame/1"


def encode(value: Any) -> bytes:
    pandas = sys.modules["pandas"]
    series = isinstance(value, pandas.Series)
    frame = value.to_frame() if series else value
    columns = [_column(frame.iloc[:, at], label) for at, label in enumerate(frame.columns)]
    index = frame.index
    levels = [index.get_level_values(at) for at in range(index.nlevels)]
    document = {
        "format": _FORMAT,
        "series": series,
        "named": not series or value.name is not None,
        "columns": columns,
        "columnNames": [_label(name) for name in frame.columns.names],
        "multiColumns": isinstance(frame.columns, pandas.MultiIndex),
        "index": [_column(level.to_series(), name) for level, name in zip(levels, index.names)],
        "multiIndex": isinstance(index, pandas.MultiIndex),
        "range": [index.start, index.stop, index.step] if isinstance(index, pandas.RangeIndex) else None,
        "rows": len(frame),
    }
    return json.dumps(document).encode()


def decode(content: bytes) -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("this artifact is a pandas frame, and pandas is not installed: run deps.add('pandas')") from None
    document = json.loads(content)
    if document.get("format") != _FORMAT:
        raise ValueError("this artifact is not a frame in the format %s" % _FORMAT)
    columns = document["columns"]
    if document["range"] is not None:
        index: Any = pandas.RangeIndex(*document["range"], name=_unlabel(document["index"][0]["label"]))
    elif document["multiIndex"]:
        arrays = [_values(level) for level in document["index"]]
        index = pandas.MultiIndex.from_arrays(arrays, names=[_unlabel(level["label"]) for level in document["index"]])
    else:
        index = pandas.Index(_values(document["index"][0]), name=_unlabel(document["index"][0]["label"]))
    data = {at: pandas.Series(_values(column), index=index) for at, column in enumerate(columns)}
    frame = pandas.DataFrame(data, index=index)
    labels = [_unlabel(column["label"]) for column in columns]
    names = [_unlabel(name) for name in document["columnNames"]]
    if document["multiColumns"]:
        frame.columns = pandas.MultiIndex.from_tuples(labels, names=names)
    else:
        frame.columns = pandas.Index(labels, name=names[0], tupleize_cols=False)
    if not document["series"]:
        return frame
    one = frame.iloc[:, 0]
    one.name = labels[0] if document["named"] else None
    return one


def _column(series: Any, label: Any) -> Dict[str, Any]:
    dtype = str(series.dtype)
    column: Dict[str, Any] = {"label": _label(label), "dtype": dtype}
    if dtype == "category":
        column["codes"] = series.cat.codes.tolist()
        column["categories"] = _column(series.cat.categories.to_series(), None)
        column["ordered"] = bool(series.cat.ordered)
    elif series.dtype.kind in "biuf" and hasattr(series.dtype, "itemsize") and not _extended(series.dtype):
        column["bytes"] = base64.b64encode(series.to_numpy().tobytes()).decode()
    elif series.dtype.kind in "mM":
        column["ticks"] = series.astype("int64").tolist()
    else:
        column["values"] = [_cell(item, label) for item in series.tolist()]
    return column


def _values(column: Dict[str, Any]) -> Any:
    import pandas

    dtype = column["dtype"]
    if "codes" in column:
        categories = _values(column["categories"])
        return pandas.Categorical.from_codes(column["codes"], categories=categories, ordered=column["ordered"])
    if "bytes" in column:
        import numpy

        return numpy.frombuffer(base64.b64decode(column["bytes"]), dtype=dtype).copy()
    if "ticks" in column:
        import numpy

        ticks = numpy.array(column["ticks"], dtype="int64")
        if dtype.startswith("datetime64") and "," in dtype:
            unit, zone = dtype[len("datetime64[") : -1].split(",", 1)
            return pandas.DatetimeIndex(ticks.view("M8[%s]" % unit), tz="UTC").tz_convert(zone.strip())
        return ticks.view(dtype.replace("datetime64", "M8").replace("timedelta64", "m8"))
    return pandas.array(column["values"], dtype=dtype) if _named(dtype) else _objects(column["values"])


def _objects(values: List[Any]) -> Any:
    import numpy

    array = numpy.empty(len(values), dtype=object)
    array[:] = values
    return array


def _named(dtype: str) -> bool:
    """Whether the values have a type of pandas or numpy, and are not plain objects."""
    return dtype != "object"


def _extended(dtype: Any) -> bool:
    return type(dtype).__module__.split(".")[0] == "pandas"


def _cell(item: Any, label: Any) -> Any:
    pandas = sys.modules["pandas"]
    if item is None or item is getattr(pandas, "NA", None) or item is pandas.NaT:
        return None
    if isinstance(item, (str, bool, int, float)):
        return item
    if type(item).__module__ == "numpy":
        return _cell(item.item(), label)
    kind = type(item)
    raise TypeError(
        "the column %r holds a %s.%s: an artifact's frame holds numbers, text, times and categories"
        % (label, kind.__module__, kind.__qualname__)
    )


def _label(label: Any) -> Any:
    if isinstance(label, tuple):
        return {"tuple": [_label(part) for part in label]}
    if label is None or isinstance(label, (str, bool, int, float)):
        return label
    if hasattr(label, "item"):
        return _label(label.item())
    raise TypeError("the label %r is a %s: an artifact's frame has text or numbers as labels" % (label, type(label).__name__))


def _unlabel(label: Any) -> Any:
    return tuple(_unlabel(part) for part in label["tuple"]) if isinstance(label, dict) else label
