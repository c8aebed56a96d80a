"""Objects that kernels query by id: hash grids."""
