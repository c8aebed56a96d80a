"""From a kernel's source to an artifact that can be loaded: the whole route, and the cache that shortens it."""
