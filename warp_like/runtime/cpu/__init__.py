"""The CPU as a target: memory of the host, and launches that have finished when they return."""
