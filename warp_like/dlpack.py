"""The older place of the functions for DLPack; they are those of ``warp_like`` itself."""

from warp_like.interop.dlpack import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
