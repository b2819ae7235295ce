"""A graph of ONNX in the making: nodes that are added as one would write a formula, and the file in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.durable import replace_file
from bochner.errors import MissingPackageError

OPSET, ML_OPSET, IR_VERSION = 17, 2, 8
"""Versions of the operators and of the file that are written: old enough for runtimes of some years ago."""
PRECISIONS = ("float64", "float32")
OUTPUTS = ("decisions", "features", "label", "predictions", "probabilities")
"""Names of outputs, which inputs must not have."""


class Graph:
    """Nodes, constants, inputs and outputs of a graph whose numbers are of the precision ``dtype``.

    Those of inputs and outputs may be of another one, ``outside``. Values go by their names, which are strings. Numbers and
    arrays among arguments become constants.
    """

    def __init__(self, dtype: str, prefix: str = "", *, outside: str | None = None, takes_tables: bool = True) -> None:
        self.onnx = _onnx()
        self.dtype = np.dtype(dtype)
        self._element = self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        self._outside = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(outside or dtype))
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self.takes_tables = takes_tables
        """Whether columns of tables are encoded within."""
        self._prefix = prefix
        """Of all names: those of a graph inside a graph must be others."""
        self._count = 0

    # -- values -------------------------------------------------------------------------------------------------------

    def input(self, name: str, n_columns: int, *, text: bool = False) -> str:
        """Rows of so many columns, of numbers or of text; a name that outputs have gets "_column" behind it."""
        name = f"{name}_column" if name in OUTPUTS else name
        element = self.onnx.TensorProto.STRING if text else self._outside
        self._inputs.append(self.onnx.helper.make_tensor_value_info(name, element, ["n", n_columns]))
        return name if text or self._outside == self._element else self.number(name)

    def output(self, name: str, value: str, shape: Sequence[int | str], dtype: Any = None) -> None:
        """A value that the graph gives, under a name of its own."""
        element = self._outside if dtype is None else self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        if dtype is None and self._outside != self._element:
            value = self.add("Cast", value, to=self._outside)
        self._nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self.onnx.helper.make_tensor_value_info(name, element, list(shape)))

    def constant(self, value: Any) -> str:
        """Numbers in the precision of the graph; whole numbers and text as they are."""
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(self.dtype)
        elif array.dtype.kind in "OU":
            array = array.astype(object)
        name = self._new("constant")
        self._constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def add(self, operator: str, *arguments: Any, **options: Any) -> str:
        """One more node; arguments that are no names become constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in arguments]
        result = self._new(operator.lower())
        self._nodes.append(self.onnx.helper.make_node(operator, names, [result], **options))
        return result

    def number(self, value: str) -> str:
        """A value in the precision of the graph; ones and zeros of one that is true or false."""
        return self.add("Cast", value, to=self._element)

    # -- formulas -----------------------------------------------------------------------------------------------------

    def sum(self, first: Any, *others: Any) -> str:
        """A sum of values."""
        for other in others:
            first = self.add("Add", first, other)
        return first

    def times(self, first: Any, *others: Any) -> str:
        """A product of values, entry by entry."""
        for other in others:
            first = self.add("Mul", first, other)
        return first

    def columns(self, value: str, which: slice | Sequence[int] | Array | None, n_columns: int) -> str:
        """Some columns of rows that have ``n_columns``."""
        numbers = np.arange(n_columns)[slice(None) if which is None else which if isinstance(which, slice) else list(which)]
        if np.array_equal(numbers, np.arange(n_columns)):
            return value
        return self.add("Gather", value, numbers.astype(np.int64), axis=1)

    def over_columns(
        self, start: float, rows: str, centres: Array, step: Callable[[Graph, str, str, str, str], str], weights: Array
    ) -> str:
        """A number for each row (n, m) and each centre (M, m), made column by column: (n, M).

        ``step`` makes the next value from (graph, value so far, column of the rows (n, 1), of the centres (1, M), weight).
        """
        helper = self.onnx.helper
        body = Graph(str(self.dtype), prefix=f"{self._new('scan')}_")
        names = [body._new(name) for name in ("so_far", "column", "centre", "weight")]
        x, c = body.add("Unsqueeze", names[1], np.array([1])), body.add("Unsqueeze", names[2], np.array([0]))
        result = step(body, names[0], x, c, names[3])
        shapes: list[Any] = [["n", len(centres)], ["n"], [len(centres)], []]
        inputs = [helper.make_tensor_value_info(*pair) for pair in zip(names, [self._element] * 4, shapes, strict=True)]
        outputs = [helper.make_tensor_value_info(result, self._element, ["n", len(centres)])]
        scanned = helper.make_graph(body._nodes, "column", inputs, outputs, body._constants)
        n_rows = self.add("Slice", self.add("Shape", rows), np.array([0]), np.array([1]))
        shape = self.add("Concat", n_rows, np.array([len(centres)]), axis=0)
        first = self.add("Expand", np.full((1, 1), start), shape)
        turned = self.add("Transpose", rows, perm=[1, 0])
        return self.add(
            "Scan",
            first,
            turned,
            np.ascontiguousarray(centres.T),
            np.asarray(weights, float),
            body=scanned,
            num_scan_inputs=3,
        )

    # -- the file -----------------------------------------------------------------------------------------------------

    def write(self, path: Path, metadata: dict[str, str]) -> None:
        """Write the graph to a file, after ONNX has checked it."""
        helper = self.onnx.helper
        graph = helper.make_graph(self._nodes, "bochner", self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="bochner")
        model.ir_version = IR_VERSION
        helper.set_model_props(model, metadata)
        self.onnx.checker.check_model(model)
        content = model.SerializeToString()
        replace_file(path, lambda file: file.write(content))

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{self._prefix}/{kind}_{self._count}"  # the stroke tells it from names of columns


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise MissingPackageError('Graphs are written by onnx, which is not here: pip install "bochner[onnx]"') from error
    return onnx
