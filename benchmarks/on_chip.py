"""The on-chip kernel of descent against PyTorch's batched operations: the same iterates, on one GPU.

The episodes are those of episodes.py: 60 base and 5 novel rows, n = 125, d = 640, R_old as `norm`, up to 1000 steps
with the stop rule. "Difference": of the weights after 200 equal steps, relative, the worst episode. "Steps apart": how
far the two stops of an episode lie apart at most. "Descent" is the loop alone; "in all" adds the way into span
coordinates and back.

Measured on 2026-11-15, one NVIDIA H200, torch 2.11.0+cu130, 2000 episodes, nothing else on the GPU; 5 shots with 8
warps, 1 shot with 4:

    method              5 shots: descent s  faster  difference    1 shot: descent s  faster  difference
    subspace  batched               1.1759                                   0.4254
    subspace  on chip               0.1587    7.4x     7.8e-08               0.0365   11.7x     9.6e-08
    semantic  batched               0.6014                                   0.1619
    semantic  on chip               0.0490   12.3x     5.6e-08               0.0094   17.2x     2.2e-08
    finetune  batched               1.0019                                   0.3535
    finetune  on chip               0.0866   11.6x     4.6e-08               0.0192   18.4x     4.7e-08

Stops lie up to 205 steps apart where the loss creeps along the tolerance (finetune, and subspace with 1 shot), else at
most 8. With 16 warps, and with the two products of a basis side by side in one tile, the compiled program of subspace
at 5 shots read outside its shared memory (compute-sanitizer); hence 8 warps and two products.

    python benchmarks/on_chip.py                # verify and time on a GPU
    python benchmarks/on_chip.py --shots 1 --warps 4 8
    python benchmarks/on_chip.py --compile      # no GPU needed: what the kernel takes of a Hopper processor
"""

import argparse
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from episodes import as_problem, make_batch, timed
from subspan.engine import on_chip
from subspan.engine.objective import Problem
from subspan.engine.on_chip_kernel import descend_one
from subspan.engine.sgd import SgdOptions, descend, sgd
from subspan.engine.span import to_span
from subspan.learners.parts.regularizer import Regularizer
from subspan.learners.registry import create_method

FIXED_STEPS = 200


def compare(
    name: str, problem: Problem, warps: Sequence[int], device: torch.device, repeats: int, max_steps: int
) -> None:
    """Verify and time one method's episodes by so many warps, and print a line for each."""
    options = SgdOptions(max_steps=max_steps)
    fixed = SgdOptions(max_steps=min(FIXED_STEPS, max_steps), patience=10**9)
    span = to_span(problem)
    if not on_chip.fits(span):
        print(f"{name:10} does not fit the kernel")
        return
    expected = span.rows(descend(span, fixed)[0])
    batched = [timed(lambda: descend(span, options), device) for _ in range(repeats + 1)]
    baseline, steps = min(seconds for _, seconds in batched[1:]), batched[0][0][1]
    whole = min(timed(lambda: span.rows(descend(to_span(problem), options)[0]), device)[1] for _ in range(repeats))
    print(f"{name:10} {'batched':>7} {'':5} {steps.double().mean():6.0f} {baseline:9.4f} {whole:9.4f}", flush=True)
    for count in warps:
        label = f"{name:10} {'on chip':>7} {count:5}"
        try:
            first, compiling = timed(lambda c=count: on_chip.descend(span, fixed, c), device)
            error = (span.rows(first[0]) - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
            runs = [timed(lambda c=count: on_chip.descend(span, options, c), device) for _ in range(repeats)]
        except Exception as failure:  # one way to compile may fail on this GPU: tell, and go on with the others
            print(f"{label} failed: {last_line(failure)}", flush=True)
            continue
        seconds, ours = min(seconds for _, seconds in runs), runs[-1][0][1]
        print(
            f"{label} {ours.double().mean():6.0f} {seconds:9.4f} {'':9} {baseline / seconds:7.1f}x {error.max():11.1e} "
            f"{int((ours - steps).abs().max()):12} {compiling:8.1f} s",
            flush=True,
        )
    try:
        seconds = min(timed(lambda: sgd(problem, options), device)[1] for _ in range(repeats))
        print(f"{name:10} {'default':>7} {'':5} {'':6} {'':9} {seconds:9.4f} {whole / seconds:7.1f}x", flush=True)
    except Exception as failure:
        print(f"{name:10} {'default':>7} failed: {last_line(failure)}", flush=True)


def last_line(failure: Exception) -> str:
    return f"{type(failure).__name__}: {str(failure).strip().rpartition(chr(10))[-1]}"


def compiled(methods: Sequence[str], warps: int) -> Iterator[dict]:
    """Compile the kernel for Hopper and tell what it takes, for every method of the benchmark."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    tools = Path(triton.__path__[0]) / "backends" / "nvidia" / "bin"
    kernel = descend_one
    for name in methods:
        split, new_held = name == "subspace", name == "semantic"
        constants: dict[str, int] = dict(
            samples=128,
            old_classes=64,
            new_classes=16,
            parts=3 if split else 2,
            old_delta=False,
            split=split,
            new_held=new_held,
        )
        signature = {argument: kind_of(argument, constants) for argument in kernel.arg_names}
        aligned = {
            (i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if signature[name] == "*bf16"
        }
        binary = triton.compile(
            ASTSource(kernel, signature, constexprs=constants, attrs=aligned),
            target=GPUTarget("cuda", 90, 32),
            options={"num_warps": warps},
        )
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(binary.asm["cubin"])
            file.flush()
            usage, code = (
                subprocess.run([tools / tool, *flags, file.name], capture_output=True, text=True, check=True).stdout
                for tool, flags in (("cuobjdump", ["-res-usage"]), ("nvdisasm", []))
            )
        numbers = {key: int(re.search(rf"{key}:(\d+)", usage)[1]) for key in ("REG", "STACK")}  # type: ignore[index]
        yield {
            "method": name,
            "shared": binary.metadata.shared,
            "registers": numbers["REG"],
            "stack": numbers["STACK"],
            "reloads": len(re.findall(r"\bLDL\b", code)),
            "tensor": len(re.findall(r"\bHGMMA\b", code)),
        }


def kind_of(argument: str, constants: dict) -> str:
    """The type of a kernel's argument in Triton's notation."""
    if argument in constants:
        return "constexpr"
    if not argument.endswith("_pointer"):
        return "fp32" if argument in ("momentum", "tolerance") else "i32"
    if re.match(r"(outside_)?(high|middle|low)_", argument):
        return "*bf16"
    return {"steps_pointer": "*i64", "label_pointer": "*i32", "is_norm_pointer": "*i32"}.get(argument, "*fp32")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true", help="compile only, and tell registers and shared memory")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=["subspace", "semantic", "finetune"])
    parser.add_argument("--warps", nargs="+", type=int, default=[8])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.compile:
        print(f"{'method':10} shared KB  registers  stack B  reloads  tensor instructions")
        for row in compiled(arguments.methods, arguments.warps[0]):
            print(
                f"{row['method']:10} {row['shared'] / 1024:10.1f} "
                f"{row['registers']:10} {row['stack']:8} {row['reloads']:8} {row['tensor']:8}",
                flush=True,
            )
        return
    device = torch.device(arguments.device)
    print(f"{arguments.episodes} episodes on {device}, torch {torch.__version__}")
    print(
        f"{'method':10} {'':>7} {'warps':>5} {'steps':>6} {'descent s':>9} {'in all s':>9} {'faster':>8} "
        f"{'difference':>11} {'steps apart':>12} {'first call':>10}"
    )
    for name in arguments.methods:
        method = create_method(name)
        assert isinstance(method, Regularizer)
        problem = as_problem(method, *make_batch(arguments.episodes, device, shots=arguments.shots))
        compare(name, problem, arguments.warps, device, arguments.repeats, arguments.max_steps)


if __name__ == "__main__":
    main()
