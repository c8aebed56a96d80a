"""Typed SSA with structured control flow: types, layout, values, ops, builder, printer, verifier, rewriting."""
