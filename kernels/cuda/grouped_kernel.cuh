// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/numeric_types.h>

#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cute/tensor.hpp>
#include <cutlass/detail/blockwise_scale_layout.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/dispatch_policy.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <type_traits>

#include "kernels/cuda/cutlass_kernels.hpp"

namespace shard8::kernels::cuda {

/// How warpgroups share tiles: both multiply halves of one tile, or each a tile of its own while the other one writes.
struct Cooperative {
  using Accurate = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative;
  using Fast = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperativeFP8FastAccum;
  using Blocks = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperativeFP8Blockwise;
  using Epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative;
};
struct Pingpong {
  using Accurate = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong;
  using Fast = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpongFP8FastAccum;
  using Blocks = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpongFP8Blockwise;
  using Epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong;
};

using Bf16 = cutlass::bfloat16_t;
using E4m3 = cutlass::float_e4m3_t;
using E5m2 = cutlass::float_e5m2_t;
using cute::GMMA::Major;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;

/// Tile of `kRows` × `kCols`, 128 bytes deep.
template <class Element, int kRows, int kCols>
using TileOf = cute::Shape<cute::Int<kRows>, cute::Int<kCols>, cute::Int<128 / static_cast<int>(sizeof(Element))>>;

/// A persistent kernel of CUTLASS for compute capability 9.0 that multiplies many matrices whose sizes only the device
/// knows. `LeftTag`, `RightTag`: pointer to the layout, or a tuple of it and of a pointer to the layout of scales.
/// `kAccumulate`: whether GroupedProblem::accumulate may be set. `MainloopSchedule`, `EpilogueSchedule`: CUTLASS's
/// schedules.
template <class Left, class LeftTag, class Right, class RightTag, class Out, bool kAccumulate, class Tile,
          class MainloopSchedule, class EpilogueSchedule, class Cluster>
class GroupedGemm {
 public:
  static bool run(cudaStream_t stream, const GroupedProblem& p) {
    if (p.accumulate && !kAccumulate) return false;
    Gemm gemm;
    const auto arguments = arguments_of(p);
    if (Gemm::get_workspace_size(arguments) > p.workspace_bytes) return false;
    if (Gemm::can_implement(arguments) != cutlass::Status::kSuccess) return false;
    if (gemm.initialize(arguments, p.workspace, stream) != cutlass::Status::kSuccess) return false;
    return gemm.run(stream) == cutlass::Status::kSuccess;
  }

 private:
  using Shapes = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;
  using Added = std::conditional_t<kAccumulate, Out, void>;
  static constexpr int kLeftAlignment = 16 / static_cast<int>(sizeof(Left));
  static constexpr int kRightAlignment = 16 / static_cast<int>(sizeof(Right));
  static constexpr int kOutAlignment = 16 / static_cast<int>(sizeof(Out));

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, Added, RowMajor*, kOutAlignment, Out, RowMajor*,
      kOutAlignment, EpilogueSchedule>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Left, LeftTag, kLeftAlignment, Right, RightTag,
      kRightAlignment, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      MainloopSchedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Shapes, Mainloop, Epilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  /// An array as CUTLASS declares it: not const, although CUTLASS only reads it.
  template <class T>
  static T* array(const void* elements) {
    return static_cast<T*>(const_cast<void*>(elements));
  }
  /// CUTLASS's strides hold one number, the pitch; the other strides are constants.
  template <class StridePointer>
  static StridePointer strides(const std::int64_t* pitches) {
    static_assert(sizeof(std::remove_pointer_t<StridePointer>) == sizeof(std::int64_t));
    return array<std::remove_pointer_t<StridePointer>>(pitches);
  }

  static typename Gemm::Arguments arguments_of(const GroupedProblem& p) {
    using Shape = typename Shapes::UnderlyingProblemShape;
    static_assert(sizeof(Shape) == 3 * sizeof(std::int32_t));
    typename Gemm::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    arguments.problem_shape = {p.groups, array<Shape>(p.shapes), nullptr};
    arguments.mainloop.ptr_A = array<const Left*>(p.left);
    arguments.mainloop.dA = strides<typename Kernel::StrideA>(p.left_pitch);
    arguments.mainloop.ptr_B = array<const Right*>(p.right);
    arguments.mainloop.dB = strides<typename Kernel::StrideB>(p.right_pitch);
    if constexpr (requires { arguments.mainloop.ptr_SFA; }) {
      // CUTLASS derives the layouts of scales from the shapes of the products.
      arguments.mainloop.ptr_SFA = array<const float*>(p.left_scale_inv);
      arguments.mainloop.ptr_SFB = array<const float*>(p.right_scale_inv);
    }
    if constexpr (kAccumulate) arguments.epilogue.ptr_C = array<const Out*>(p.out);
    arguments.epilogue.dC = strides<typename Kernel::StrideC>(p.out_pitch);
    arguments.epilogue.ptr_D = array<Out*>(p.out);
    arguments.epilogue.dD = strides<typename Kernel::StrideD>(p.out_pitch);
    arguments.epilogue.thread.alpha = 1.0f;
    arguments.epilogue.thread.beta = p.accumulate ? 1.0f : 0.0f;
    if (p.alpha != nullptr) {
      arguments.epilogue.thread.alpha_ptr = p.alpha;
      cute::get<2>(arguments.epilogue.thread.dAlpha) = 1;
    }
    arguments.hw_info.sm_count = p.multiprocessors;
    arguments.scheduler.max_swizzle_size = p.swizzle;
    return arguments;
  }
};

using OneBlock = cute::Shape<cute::_1, cute::_1, cute::_1>;

/// Grouped products without scales, or with alpha alone. `Schedule`: Cooperative or Pingpong. `kFast`: FP8 products
/// accumulate with fewer bits.
template <class Left, class LeftLayout, class Right, class RightLayout, class Out, bool kAccumulate, class Tile,
          class Schedule, bool kFast = false, class Cluster = OneBlock>
using GroupedKernel = GroupedGemm<Left, LeftLayout*, Right, RightLayout*, Out, kAccumulate, Tile,
                                  std::conditional_t<kFast, typename Schedule::Fast, typename Schedule::Accurate>,
                                  typename Schedule::Epilogue, Cluster>;

/// FP8 with contiguous depth and scales of blocks of 128 along it: of one row of the left factor, and of `kRightCols`
/// (1 or 128) columns of the right one. `kLeftScales`,
/// `kRightScales`: MN if scales of neighbouring rows or columns, else of neighbouring blocks
/// along the depth, are contiguous.
template <class Left, cute::GMMA::Major kLeftScales, int kRightCols, cute::GMMA::Major kRightScales, class Out,
          bool kAccumulate, class Tile, class Schedule>
struct GroupedBlocks {
  using Scales = cutlass::detail::Sm90BlockwiseScaleConfig<1, kRightCols, 128, kLeftScales, kRightScales>;
  using LeftScales = decltype(Scales::deduce_layoutSFA());
  using RightScales = decltype(Scales::deduce_layoutSFB());
  using Kernel = GroupedGemm<Left, cute::tuple<RowMajor*, LeftScales*>, cutlass::float_e4m3_t,
                             cute::tuple<ColumnMajor*, RightScales*>, Out, kAccumulate, Tile, typename Schedule::Blocks,
                             typename Schedule::Epilogue, OneBlock>;
};

}  // namespace shard8::kernels::cuda
