"""What fitted estimators have to be saved: methods that hand over to ``bochner.persistence``, which is above them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Saved:
    """An estimator that can be written to a file, and loaded from it by :func:`bochner.load`."""

    def save(
        self, path: str | Path, *, dtype: str | None = None, compact: bool = True, classes: Sequence[type] = ()
    ) -> None:
        """Write the fitted model to a file of the format safetensors, which :func:`bochner.load` reads.

        A model on data centres (``finish_ == "centres"``) is made of rows of its fit, and so is an exact learner: their
        files hold these rows. ``finish="fourier"``, or ``n_features=``, makes a model that holds none.

        Parameters
        ----------
        path : str or Path
            The file, such as "model.safetensors"; it is there as a whole or not at all.
        dtype : {None, "float32"}, default=None
            "float32" stores matrices (base points, centres, coefficients of features) in single precision, which halves the
            file and rounds predictions. Coefficients at centres, and kernels, keep their digits.
        compact : bool, default=True
            Leave out what predictions do without: sums over the training rows, which ``partial_fit`` and ``return_std``
            need, and coefficients along the path of penalties.
        classes : list of type, default=()
            Kernel classes of your own that the model uses; give them to :func:`bochner.load` too.
        """
        from bochner.persistence import save

        save(self, path, dtype=dtype, compact=compact, classes=classes)

    def to_onnx(self, path: str | Path, *, dtype: str = "float64", encoded: bool = False) -> None:
        """Write the fitted model as a graph of the format ONNX: see :func:`bochner.export_onnx`."""
        from bochner.persistence import export_onnx

        model: Any = self
        export_onnx(model, path, dtype=dtype, encoded=encoded)
