"""Compile the fused kernels for an NVIDIA GPU that need not be there.

As a program, this prints what they need of the hardware.
"""

from __future__ import annotations

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from fairseq_hybrid_attn.attention.fused_cuda import kernels
from fairseq_hybrid_attn.attention.fused_cuda import launch as path

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
#: Pointers whose type is not that of q.
OTHERS = {"PADDING": "*u8", "BOUNDS": "*i32", "LSE": "*fp32", "DELTA": "*fp32"}


def compile_all(branches: int, d_k: int, dtype: str, capability: int) -> dict:
    """Return Triton's compiled kernels by name, with padding, for long sentences."""
    q = torch.empty(1, 1, 4096, d_k, dtype=TYPES[dtype])
    sizes = path._sizes(q, q, branches, torch.empty(1, 4096))
    sizes["ROUNDED"] = dtype != "fp32"
    compiled = {}
    for name in ("forward", "rows", "query_gradient", "key_gradient"):
        kernel = getattr(kernels, f"{name}_kernel")
        constants = {key: sizes[key] for key in kernel.arg_names if key in sizes}
        signature, aligned = {}, {}
        for number, argument in enumerate(kernel.arg_names):
            if argument in constants:
                signature[argument] = "constexpr"
            elif argument.isupper() and len(argument) > 1 and argument != "BH" or argument in "QKV":
                signature[argument] = OTHERS.get(argument, f"*{dtype}")
                aligned[(number,)] = [["tt.divisibility", 16]]
            else:  # sizes and strides; the latter are multiples of the width
                signature[argument] = "i32"
                if "_" in argument and not argument.startswith(("padding", "bounds")):
                    aligned[(number,)] = [["tt.divisibility", 16]]
        source = ASTSource(kernel, signature=signature, constexprs=constants, attrs=aligned)
        compiled[name] = triton.compile(
            source,
            target=GPUTarget("cuda", capability, 32),
            options={"num_warps": sizes["num_warps"]},
        )
    return compiled


if __name__ == "__main__":
    import subprocess
    import tempfile
    from itertools import product
    from pathlib import Path

    cuobjdump = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    for capability, dtype, d_k, branches in product((90, 80), TYPES, (64, 128), (4, 1)):
        for name, kernel in compile_all(branches, d_k, dtype, capability).items():
            with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                file.write(kernel.asm["cubin"])
                file.flush()
                usage = subprocess.check_output([cuobjdump, "-res-usage", file.name], text=True)
            # What does not fit into registers (REG, 255 at most) lies on the STACK.
            print(f"sm_{capability} {dtype} d_k {d_k} l {branches} {name}:")
            print(usage.splitlines()[-1], "shared", kernel.metadata.shared, flush=True)
