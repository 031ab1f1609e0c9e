"""`fill_diagonal_` reads the strides of its tensor as numbers, so each size would be a compile, and writes through as_strided, of which AOTAutograd
follows no writes where the tensor is a view: with gradients the graph would run eagerly. Of a matrix `diagonal()` is the same elements; so while a
frame of ours is traced the one stands for the other, where nothing wraps around."""

from torch._dynamo.variables.tensor import TensorVariable


def install(current_session):
    def fill(variable, tx, fill_value=None, wrap=None):
        wraps = wrap is not None and not (wrap.is_python_constant() and not wrap.as_python_constant())
        if current_session() is None or fill_value is None or wraps or variable.ndim != 2:
            return None   # as torch does
        variable.call_method(tx, "diagonal", [], {}).call_method(tx, "fill_", [fill_value], {})
        return variable

    TensorVariable.method_fill_diagonal_ = fill
