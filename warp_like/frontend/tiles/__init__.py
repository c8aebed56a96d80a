"""Builtins of tiles whose calls the frontend builds; ``handlers.py`` lists them."""
