"""Builds the shared library. Without a C compiler the package still installs, and its kernel says what to do."""

from __future__ import annotations

import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = "src/tcplug_cpu_kernels/c"
SOURCES = ["activations", "block", "dispatch", "isa_avx2", "isa_avx512", "isa_plain", "spread", "step"]
# Contracting a * b + c would round tiles of different sizes differently.
FLAGS = ["-O3", "-std=gnu11", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


class BuildLibrary(build_ext):
    """Adds threads where the compiler has OpenMP."""

    def build_extension(self, ext: Extension) -> None:
        if self._links_with("-fopenmp"):
            ext.extra_compile_args.append("-fopenmp")
            ext.extra_link_args.append("-fopenmp")
        super().build_extension(ext)

    def _links_with(self, flag: str) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text("#include <omp.h>\nint probe(void) { return omp_get_max_threads(); }\n")
            try:
                objects = self.compiler.compile([str(source)], output_dir=folder, extra_postargs=[flag])
                self.compiler.link_shared_object(objects, str(Path(folder, "probe.so")), extra_postargs=[flag])
            except Exception:  # each compiler class has its own errors
                return False
            return True


setup(
    cmdclass={"build_ext": BuildLibrary},
    ext_modules=[
        Extension(
            "tcplug_cpu_kernels._kernels",
            sources=[f"{FOLDER}/{name}.c" for name in SOURCES],
            depends=[str(path) for path in sorted(Path(FOLDER).glob("*.h"))],
            extra_compile_args=FLAGS,
            libraries=["m"],
            optional=True,
        )
    ],
)
