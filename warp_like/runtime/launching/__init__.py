"""Launches, recorded launches, graphs and timing."""
