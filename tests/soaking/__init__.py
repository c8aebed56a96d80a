"""The soak: all kinds of work for minutes from several threads, results checked, memory watched.

``make soak SECONDS=1800`` runs it; ``kinds.py`` and ``frameworks.py`` have the work, ``plateau.py`` decides.
"""
