"""Facts about functions, each computed in one place and proven; passes and backends ask here and assume nothing else."""
