"""x"""
from warp_like.runtime.tangents import hvp, jvp
