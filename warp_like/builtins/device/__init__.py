"""Bodies of builtins, written in the kernel language; their names are builtins and types."""
