"""CUDA devices: the driver behind one interface, and what the runtime does through it.

Nothing here is imported before a program asks for a CUDA device. ``driver.py`` alone imports cuda-python; a test puts
a recording fake in its place.
"""
