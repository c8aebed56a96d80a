"""Devices, streams, allocators and blocks of memory; nothing here knows arrays."""
