"""Searches in the kernel language."""
# mypy: ignore-errors
# ruff: noqa


def lower_bound(arr, arr_begin, arr_end, value):
    low, high = arr_begin, arr_end - 1  # the last one is the answer if no other is
    while low < high:
        middle = low + (high - low) / 2
        if arr[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def lower_bound_of_all(arr, value):
    return lower_bound(arr, 0, len(arr), value)
