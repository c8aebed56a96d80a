"""Operations on whole arrays that launch kernels: maps, scans, sorts, reductions."""
