# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0

import os

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Shard8(CMakePackage, CudaPackage):
    """MPI mini-app that trains a transformer with sharded weights (FSDP), tensor
    parallelism and FP8, and reports where the time of a step went."""

    # This recipe lies in the repository of shard8 and builds the clone in which it lies.
    git = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 6))
    homepage = f"file://{git}"

    tags = ["proxy-app"]

    license("Apache-2.0", checked_by="shard8")

    version("main", branch="main")

    variant("openmp", default=True, description="Kernels on hosts use OpenMP threads")
    variant("tests", default=False, description="Build the tests")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("git", type="build")

    depends_on("mpi@3.1:")
    depends_on("hdf5@1.10: +mpi")
    depends_on("yaml-cpp")
    depends_on("cli11")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3:")
    depends_on("xxhash")
    depends_on("openblas")
    depends_on("openblas threads=openmp", when="+openmp")
    depends_on("kokkos@5:")
    depends_on("kokkos +openmp", when="+openmp")
    depends_on("googletest +gmock", type="build", when="+tests")

    with when("+cuda"):
        depends_on("cuda@13:")
        depends_on("cudnn@9:")
        depends_on("nccl")
        for arch in CudaPackage.cuda_arch_values:
            depends_on(f"kokkos +cuda cuda_arch={arch}", when=f"cuda_arch={arch}")
    depends_on("kokkos ~cuda", when="~cuda")

    conflicts("cuda_arch=none", when="+cuda", msg="+cuda needs cuda_arch, as cuda_arch=90")
    conflicts("%gcc@:11", msg="shard8 is written in C++20: GCC 12 or newer")

    generator("ninja")

    def cmake_args(self):
        spec = self.spec
        args = [
            self.define("SHARD8_MARCH", ""),  # Spack's compiler wrapper gives the target's flags
            self.define_from_variant("SHARD8_TESTS", "tests"),
            self.define("Kokkos_ROOT", spec["kokkos"].prefix),
            self.define("HDF5_ROOT", spec["hdf5"].prefix),
            self.define("SHARD8_BLAS_LIBRARY", spec["openblas"].libs[0]),
            self.define("MPI_CXX_COMPILER", spec["mpi"].mpicxx),
            self.define("SHARD8_WERROR", False),
            self.define("SHARD8_CCACHE", False),  # Spack's setting config:ccache decides
        ]
        if spec.satisfies("+cuda"):
            args.append(self.define("NCCL_ROOT", spec["nccl"].prefix))
            args.append(self.define("CUDNN_ROOT", spec["cudnn"].prefix))
            args.append(self.define("SHARD8_CUTLASS", "off"))  # a user's private copy is not used
        else:
            args.append(self.define("CMAKE_CUDA_COMPILER", "NOTFOUND"))  # an nvcc of the machine is not used
        return args

    def test_check(self):
        """The installed program reads an installed deck."""
        shard8 = which(self.prefix.bin.shard8)
        deck = self.prefix.share.shard8.decks.join("quickstart.yaml")
        out = shard8("check", deck, output=str.split, error=str.split)
        assert "quickstart.yaml: good" in out
