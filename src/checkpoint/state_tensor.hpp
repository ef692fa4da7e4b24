// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/mesh.hpp"
#include "io/box.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::checkpoint {

/// What a persistent tensor holds of the parameter whose Hugging Face name it has.
enum class Content : std::uint8_t {
  master,            ///< fp32, or bf16 with a remainder
  master_remainder,  ///< i16: the low half of an fp32 master
  exp_avg,           ///< the first moment of AdamW
  exp_avg_sq,        ///< the second moment
  fp8_rowwise,       ///< the weight in FP8 as the forward product reads it; also as dgrad does if there is one copy
  fp8_rowwise_scale_inv,
  fp8_columnwise,  ///< the copy that dgrad reads, of recipes with two
  fp8_columnwise_scale_inv,
  // Of all matrices in FP8 at once; not of one parameter.
  fp8_scale,            ///< (roles, 4·layers) fp32: delayed 3 roles, current those of weights; layer and linear
  fp8_amax_history,     ///< (3·amax_history, 4·layers) i32: role and step; layer and linear
  fp8_history_entries,  ///< (3) i32: steps that ever entered the history of a role
};
std::string_view name_of(Content content);

/// Which ranks of the mesh hold the same boxes of a tensor.
enum class Copies : std::uint8_t {
  replicas,      ///< the ranks of a replicate group: shard and tensor ranks each have boxes of their own
  tensor_ranks,  ///< these and the ranks of a tensor group
  all_ranks,     ///< every rank holds the whole tensor
};

/// Elements of a tensor that lie on this rank.
struct LocalPart {
  io::Box box;              ///< in coordinates of the whole tensor, as files hold it
  bool transposed = false;  ///< element (r, c) of the box is local(c, r), else local(r, c)
  tensor::Tensor local;     ///< box.count() elements; without data in a measuring arena
  /// Where the elements of the box lie in `local`.
  io::StridedBox memory() const;
};

/// One persistent tensor, named and laid out as in Hugging Face checkpoints, and what this rank holds of it. The same
/// list of tensors, with the same names, contents, dtypes and shapes, is on every rank; only the parts differ.
struct StateTensor {
  std::string name;
  Content content = Content::master;
  tensor::DType dtype = tensor::DType::fp32;
  tensor::Shape shape;  ///< of the whole tensor, one or two dimensions
  Copies copies = Copies::replicas;
  bool in_host_memory = false;   ///< the parts are not in memory of the execution space
  std::vector<LocalPart> parts;  ///< disjoint; none is empty

  /// Whether the rank at `place` is the one that counts for its parts: over these ranks the parts cover the tensor
  /// exactly once. That is the first of the ranks that hold the same.
  bool counts(const comm::MeshPlace& place) const;
  /// "NAME, CONTENT", for messages.
  std::string label() const;
};

/// A hash of the index of an element in the whole row-major tensor, and of its bits.
std::uint64_t hash_element(std::int64_t index, std::uint64_t bits);

/// The sum modulo 2^64 of the hashes of the elements in this rank's parts. Summed over the ranks that count, it is the
/// hash of the whole tensor, the same on every mesh. Copies 4 MiB at a time to the host; waits for `exec`.
std::uint64_t hash_parts(const tensor::Exec& exec, const StateTensor& tensor);

}  // namespace shard8::checkpoint
