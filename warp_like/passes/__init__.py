"""Transformations of the IR. Each works in place; ``pipeline`` says which run, in what order, on copies."""
