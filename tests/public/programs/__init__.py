"""The programs: each names its package and yields its stages."""
