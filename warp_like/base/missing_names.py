"""Warp's public names that are missing here, by what they belong to: for messages, which name the page about it.

A name that is added to the package leaves this table; ``tests/base/test_missing_names.py`` holds that.
"""

from __future__ import annotations

PAGE = 'the page "Coming from Warp" of the documentation lists what is missing'

MISSING: dict[str, str] = {
    name: subject
    for subject, names in {
        "textures shared with OpenGL are": ("GLTextureResource RegisteredGLBuffer TextureResourceFlags"),
        "arrays of Omniverse's Fabric are": ("fabricarray fabricarrayarray indexedfabricarray indexedfabricarrayarray"),
        "saving captured graphs to files is": ("capture_load capture_load_from_bytes capture_save"),
        "options of snippets' builds are": ("ModuleBuildOptions"),
        "launches in clusters of blocks are": ("get_cuda_max_cluster_dim"),
        "the module is": ("fem build_experimental"),
    }.items()
    for name in names.split()
}
"""The names, and the subject of the sentence that says so."""

OTHER_NAMES = {
    **dict.fromkeys(("thread_id", "get_thread_id", "thread_index", "global_id", "program_id", "threadIdx"), "tid"),
}
"""Names that other libraries have for builtins."""


def sentence(name: str, module: str = "wp") -> str | None:
    """Return what to say of a missing name of ``module``, as the user calls us; None where Warp has none such."""
    subject = MISSING.get(name)
    return (
        f"`{module}.{name}` exists in Warp and not here: {subject} not in this release" if subject is not None else None
    )
