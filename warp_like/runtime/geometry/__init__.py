"""Objects that kernels query by id: hash grids, trees of boxes, meshes."""
