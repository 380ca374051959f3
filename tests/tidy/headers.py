"""Goal: each header compiles alone, so that the order of includes never matters.

Method: the compiler checks every header as a file of its own, several in one call.
"""

import subprocess
import sys
from pathlib import Path

FLAGS = ["-std=c17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
         "-fsyntax-only", "-x", "c"]
# Headers of one instruction set need its flags; those of two rungs are tried with either's.
KERNELS = ("engine/kernels/lanes/", "engine/kernels/x86/")
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = AVX2 + ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-DKERNELS_AVX512"]
FLAGS_OF = {"x86_64": (AVX2, AVX512), "aarch64": ([],)}
# Left to a build for that CPU.
CPU_OF = {"engine/kernels/lanes/lanes_x86.h": "x86_64", "engine/kernels/x86/int8_quads.h": "x86_64",
          "engine/kernels/lanes/lanes_neon.h": "aarch64"}
LAYERS = ("engine", "api", "batch", "eval", "server", "schemas", "tests")


def compile_alone(compiler, root, flags, headers):
    if not headers:
        return 0
    command = compiler + FLAGS + flags + ["-I", str(root)] + headers
    return subprocess.run(command, cwd=root, check=False).returncode


def is_for(machine, header):
    return all(machine.startswith(cpu) for prefix, cpu in CPU_OF.items()
               if header.startswith(prefix))


def main():
    root, includes, compiler = Path(sys.argv[1]), sys.argv[2].split(":"), sys.argv[3:]
    headers = sorted(path.relative_to(root).as_posix() for layer in LAYERS
                     for path in (root / layer).rglob("*.h"))
    machine = subprocess.run(compiler + ["-dumpmachine"], capture_output=True, text=True,
                             check=True).stdout
    headers = [header for header in headers if is_for(machine, header)]
    extra = [flag for folder in includes if folder for flag in ("-I", folder)]
    failed = compile_alone(compiler, root, extra,
                           [header for header in headers if not header.startswith(KERNELS)])
    kernels = [header for header in headers if header.startswith(KERNELS)]
    for cpu, choices in FLAGS_OF.items():
        for flags in choices if machine.startswith(cpu) else ():
            failed |= compile_alone(compiler, root, extra + flags, kernels)
    print(f"{len(headers)} headers")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
