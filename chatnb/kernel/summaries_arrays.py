"""Summaries of numpy arrays and of tensors: shape, dtype, numbers, the first 10 elements."""

from __future__ import annotations

from itertools import islice
from typing import Any

from chatnb.kernel.summaries_frames import cell_text
from chatnb.kernel.summaries_numbers import MAX_ELEMENTS, describe_numbers, number_text
from chatnb.kernel.summaries_text import cut, is_a, module_root, type_name

_FIRST = 10


def is_array(value: object) -> bool:
    """Tell whether an object is a numpy array or a tensor of a known library."""
    return is_a(value, "numpy", "ndarray") or is_tensor(value)


def is_tensor(value: object) -> bool:
    """Tell whether an object is a tensor of torch, JAX, TensorFlow or CuPy."""
    return (
        is_a(value, "torch", "Tensor")
        or is_a(value, "tensorflow", "Tensor", "EagerTensor", "Variable")
        or is_a(value, "jaxlib", "ArrayImpl")
        or is_a(value, "cupy", "ndarray")
    )


def describe_array(array: Any) -> str:
    """Return shape and dtype; min, mean, max and NaN when it has at most 10 million elements; the first 10."""
    return _describe_tensor(array) if is_tensor(array) else _describe_numpy(array)


def _describe_numpy(array: Any) -> str:
    lines = [f"numpy {type_name(array)}: shape {tuple(array.shape)}, dtype {cut(str(array.dtype), 200)}"]
    mask = getattr(array, "mask", None) if is_a(array, "numpy", "MaskedArray") else None
    values = array if mask is None else array.compressed() if array.size <= MAX_ELEMENTS else None
    if mask is not None and values is not None:
        lines[0] += f", masked {array.size - values.size}"
    numbers = describe_numbers(values, with_nan=True) if values is not None else ""
    if numbers:
        lines.append(numbers)
    if array.size:
        first = [_plain(item) for item in islice(array.flat, _FIRST)]
        lines.append(f"First {len(first)}: {', '.join(map(cell_text, first))}{_more(array.size)}")
    return cut("\n".join(lines))


def _describe_tensor(tensor: Any) -> str:
    device = getattr(tensor, "device", None)
    where = f", device {device}" if device is not None and not callable(device) else ""
    lines = [f"{module_root(tensor)} {type_name(tensor)}: shape {tuple(tensor.shape)}, dtype {tensor.dtype}{where}"]
    # On another device even a look at the numbers is work: there the type says it.
    if is_a(tensor, "torch", "Tensor") and str(device) == "cpu" and getattr(tensor, "layout", None) is not None:
        lines.extend(_torch_numbers(tensor.detach()))
    return cut("\n".join(lines))


def _torch_numbers(tensor: Any) -> list[str]:
    size = int(tensor.nelement())
    lines: list[str] = []
    if not size:
        return lines
    if size <= MAX_ELEMENTS and not tensor.is_complex():
        if tensor.is_floating_point():
            is_nan = tensor.isnan()
            nan = int(is_nan.sum())
            whole = tensor[~is_nan]
            if whole.nelement():
                lines.append(_min_mean_max(whole) + f", {nan} NaN")
            else:
                lines.append(f"{nan} NaN")
        else:
            lines.append(_min_mean_max(tensor))
    first = tensor.reshape(-1)[:_FIRST].tolist()
    lines.append(f"First {len(first)}: {', '.join(map(cell_text, first))}{_more(size)}")
    return lines


def _min_mean_max(tensor: Any) -> str:
    mean = tensor.double().mean().item()
    return f"min {number_text(tensor.min().item())}, mean {mean:.6g}, max {number_text(tensor.max().item())}"


def _more(size: int) -> str:
    return " …" if size > _FIRST else ""


def _plain(item: Any) -> Any:
    """Return an item as Python's own; a masked one hides the number that is under it."""
    if type(item).__name__ == "MaskedConstant":
        return "--"
    return item.item() if hasattr(item, "item") else item
