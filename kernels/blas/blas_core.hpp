// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <string>
#include <string_view>

namespace shard8::kernels {

/// A function of OpenBLAS, or null where the program is linked with another BLAS. The function is looked up by name, so
/// that programs link with any BLAS.
template <class F>
F* openblas_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

/// Which vector instructions a program may use on this processor, of those for which OpenBLAS has kernels: the
/// processor has them, and the operating system saves their registers.
struct VectorUnits {
  bool avx2 = false;    ///< AVX2 with FMA
  bool avx512 = false;  ///< AVX-512 F, CD, BW, DQ and VL
  bool amd = false;
};

/// The vector units of this processor; none where it is no x86-64.
VectorUnits vector_units();

/// The kernels that OpenBLAS should use instead of those named `chosen`, as a value of OPENBLAS_CORETYPE; empty if
/// `chosen` are made for what the processor offers. OpenBLAS chooses by the processor's model, so that a processor
/// that is newer than the library gets kernels for SSE3 ("Prescott"): on an Emerald Rapids those of OpenBLAS 0.3.21
/// take five times as long as "SkylakeX".
std::string better_blas_core(std::string_view chosen, const VectorUnits& units);

/// Makes OpenBLAS choose its kernels again, by better_blas_core(), if it has chosen some that are made for less than
/// the processor offers. To be called first in main(), before any product. Changes nothing if OPENBLAS_CORETYPE is set,
/// if the BLAS is not OpenBLAS, or if this OpenBLAS has the kernels of one kind of processor alone.
void choose_blas_core();

}  // namespace shard8::kernels
