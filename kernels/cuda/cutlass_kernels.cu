// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/numeric_types.h>
#include <cutlass/version.h>
#include <cute/tensor.hpp>
#include <cutlass/detail/blockwise_scale_layout.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/dispatch_policy.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <type_traits>

#include "kernels/cuda/cutlass_kernels.hpp"

namespace shard8::kernels::cuda {

/// A persistent kernel of CUTLASS for compute capability 9.0: two warpgroups multiply, each 128 rows of a tile of
/// 256×128, and one loads. This tile was the fastest of the tiles and clusters that were timed on an H200, for all
/// products of a Llama-3 8B. `Left`: dtype of the left factor. `kTiles`: the right factor has 128×128 scales, else
/// 1×128. `Added`: dtype of what may be added, or void.
template <class Left, bool kTiles, class Added, class Out>
class CutlassKernel {
 public:
  static bool run(cudaStream_t stream, const CutlassProblem& p) {
    Gemm gemm;
    const auto arguments = arguments_of(p);
    if (Gemm::can_implement(arguments) != cutlass::Status::kSuccess) return false;
    if (gemm.initialize(arguments, nullptr, stream) != cutlass::Status::kSuccess) return false;
    return gemm.run(stream) == cutlass::Status::kSuccess;
  }

 private:
  using Right = cutlass::float_e4m3_t;
  using RowMajor = cutlass::layout::RowMajor;
  using ColumnMajor = cutlass::layout::ColumnMajor;
  using Tile = cute::Shape<cute::_256, cute::_128, cute::_128>;
  using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using Scales = cutlass::detail::Sm90BlockwiseScaleConfig<1, kTiles ? 128 : 1, 128, cute::GMMA::Major::MN,
                                                           kTiles ? cute::GMMA::Major::K : cute::GMMA::Major::MN>;
  using LeftScales = decltype(Scales::deduce_layoutSFA());
  using RightScales = decltype(Scales::deduce_layoutSFB());
  static constexpr int kFactorAlignment = 16, kOutAlignment = 16 / static_cast<int>(sizeof(Out));

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, Added, RowMajor, kOutAlignment, Out, RowMajor,
      kOutAlignment, cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Left, cute::tuple<RowMajor, LeftScales>, kFactorAlignment,
      Right, cute::tuple<ColumnMajor, RightScales>, kFactorAlignment, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8Blockwise>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  static RightScales right_scales(const CutlassProblem& p) {
    if constexpr (kTiles) {
      // cuBLASLt's padding of the blocks along the depth, to a multiple of 4.
      const int blocks = p.depth / 128, pitch = (blocks + 3) / 4 * 4, lines = (p.cols + 127) / 128;
      return cute::make_layout(
          cute::make_shape(cute::make_shape(cute::_128{}, lines), cute::make_shape(cute::_128{}, blocks), 1),
          cute::make_stride(cute::make_stride(cute::_0{}, pitch), cute::make_stride(cute::_0{}, cute::_1{}),
                            pitch * lines));
    } else {
      return Scales::tile_atom_to_shape_SFB(cute::make_shape(p.rows, p.cols, p.depth, 1));
    }
  }

  static typename Gemm::Arguments arguments_of(const CutlassProblem& p) {
    // Strides of the slow dimension; the other is contiguous, and there is one matrix.
    const auto stride = [](std::int64_t pitch) { return cute::make_stride(pitch, cute::_1{}, std::int64_t{0}); };
    typename Gemm::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    arguments.problem_shape = {p.rows, p.cols, p.depth, 1};
    arguments.mainloop = {static_cast<const Left*>(p.left),
                          stride(p.depth),
                          static_cast<const Right*>(p.right),
                          stride(p.depth),
                          p.left_scale_inv,
                          Scales::tile_atom_to_shape_SFA(cute::make_shape(p.rows, p.cols, p.depth, 1)),
                          p.right_scale_inv,
                          right_scales(p)};
    arguments.epilogue.thread.alpha = 1.0f;
    arguments.epilogue.thread.beta = p.added == nullptr ? 0.0f : 1.0f;
    arguments.epilogue.dC = stride(p.cols);
    arguments.epilogue.ptr_D = static_cast<Out*>(p.out);
    arguments.epilogue.dD = stride(p.cols);
    if constexpr (!std::is_void_v<Added>) {
      // Without an addend nothing is read, but the address must be valid.
      arguments.epilogue.ptr_C = static_cast<const Added*>(p.added == nullptr ? p.out : p.added);
    }
    arguments.hw_info.sm_count = p.multiprocessors;
    using Order = typename cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90Params::RasterOrderOptions;
    arguments.scheduler.max_swizzle_size = p.swizzle;
    arguments.scheduler.raster_order = p.along_rows ? Order::AlongM : Order::AlongN;
    return arguments;
  }
};

std::int32_t cutlass_kernels_version() { return CUTLASS_VERSION; }

bool run_cutlass_plain(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e4m3_t, true, void, cutlass::bfloat16_t>::run(stream, problem);
}

bool run_cutlass_plain_e5m2(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e5m2_t, true, void, cutlass::bfloat16_t>::run(stream, problem);
}

bool run_cutlass_addend(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e4m3_t, true, cutlass::bfloat16_t, cutlass::bfloat16_t>::run(stream, problem);
}

bool run_cutlass_vectors(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e4m3_t, false, float, float>::run(stream, problem);
}

bool run_cutlass_vectors_e5m2(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e5m2_t, false, float, float>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
