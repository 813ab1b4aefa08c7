"""Compile every kernel of fused_kernels.py for a Hopper GPU, which needs none, and print its name and shared memory."""

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from subspan.backbones import fused_kernels

MAPS = {"maps", "others", "out", "other_out", "gradient", "kernel"}
NUMBERS = {"epsilon": "fp32", "slope": "fp32", "momentum": "fp32", "batches": "*i64"}
WHOLE = {"stride", "count", "channels", "chunk", "height", "width", "outputs", "columns"}
SIZES = {"ROWS": 16, "COLUMNS": 32, "SIZE": 3, "KERNEL": 32, "INPUTS": 3}

LAUNCHED = {
    name: kernel
    for name, kernel in vars(fused_kernels).items()
    if isinstance(kernel, triton.JITFunction) and not name.startswith("_")
}


def kind_of(kernel: str, argument: str) -> str:
    if argument in SIZES:
        return "constexpr"
    if argument in WHOLE or (argument == "images" and "thin" not in kernel):
        return "i32"
    if argument in MAPS and kernel != "column_sums":
        return "*bf16"
    return NUMBERS.get(argument, "*fp32")


for name, kernel in LAUNCHED.items():
    signature = {argument: kind_of(name, argument) for argument in kernel.arg_names}
    constants = {argument: SIZES[argument] for argument in kernel.arg_names if argument in SIZES}
    binary = triton.compile(ASTSource(kernel, signature, constexprs=constants), target=GPUTarget("cuda", 90, 32))
    print(name, binary.metadata.shared)
