"""What programs use beside kernels: made of the public parts of the floors below, loaded when it is imported."""
