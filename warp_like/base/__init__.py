"""The lowest floor: source locations, errors, settings, logging and hashing. Imports nothing of the project."""
