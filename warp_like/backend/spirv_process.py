"""The process in which LLVM translates one module to SPIR-V: from its standard input to its standard output.

Arguments: ``object`` or ``assembly``, and the folder that holds llvmlite. See ``spirv.py``.
"""

from __future__ import annotations

import sys


def main(form: str, folder: str) -> None:
    """Translate."""
    sys.path.append(folder)
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("spirv64-unknown-unknown").create_target_machine(opt=2)
    module = llvm.parse_assembly(sys.stdin.buffer.read().decode())
    module.data_layout = str(machine.target_data)
    module.verify()
    made = machine.emit_object(module) if form == "object" else machine.emit_assembly(module).encode()
    sys.stdout.buffer.write(made)


if __name__ == "__main__":
    main(*sys.argv[1:])
