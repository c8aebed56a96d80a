"""Teams: the threads of a CUDA block that run one thread of the grid together."""
