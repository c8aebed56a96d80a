"""Tapes, tangents and jacobians: derivatives of launches."""
