"""Facts about functions, computed in one place and proven; passes and backends ask here and assume nothing else."""
