// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/initialise.hpp"

#include <algorithm>
#include <string_view>

#include "kernels/elementwise.hpp"
#include "kernels/master.hpp"
#include "kernels/random.hpp"
#include "tensor/transfer.hpp"

namespace shard8::model {

using base::ExitCode;
using tensor::Tensor;

namespace {

/// The tensor's name in the file: some GPT-2 checkpoints leave out the prefix "transformer.".
std::string name_in(const io::TensorFile& file, const std::string& name) {
  constexpr std::string_view kPrefix = "transformer.";
  if (file.contains(name)) return name;
  if (name.starts_with(kPrefix) && file.contains(name.substr(kPrefix.size()))) return name.substr(kPrefix.size());
  base::fail(ExitCode::deck,
             "{}: there is no tensor '{}', which the model needs: check model.arch, model.layers and "
             "model.tie_embeddings, or the group or file of model.init_file",
             file.spec(), name);
}

void check_shape(const io::TensorFile& file, const SourceBox& box, bool vector) {
  const auto& shape = file.shape(box.name);
  const std::int64_t rows = box.stored_transposed ? box.global_cols : box.global_rows;
  const std::int64_t cols = box.stored_transposed ? box.global_rows : box.global_cols;
  const bool positions = box.name.ends_with("wpe.weight");  // a longer table than seq may be used in part
  const bool fits = vector ? shape.size() == 1 && shape[0] == rows
                           : shape.size() == 2 && (positions ? shape[0] >= rows : shape[0] == rows) && shape[1] == cols;
  if (fits) return;
  std::string found;
  for (const auto extent : shape) found += (found.empty() ? "" : ", ") + std::to_string(extent);
  base::fail(ExitCode::deck,
             "{}: tensor '{}' has shape ({}), the model needs ({}{}): check the model group of the deck", file.spec(),
             box.name, found, rows, vector ? "" : ", " + std::to_string(cols));
}

void read_box(const io::TensorFile& file, const SourceBox& box, float* out) {
  if (!box.stored_transposed) {
    file.read_box(box.name, {box.row, box.rows, box.col, box.cols}, out, box.cols);
    return;
  }
  std::vector<float> stored(static_cast<std::size_t>(box.rows * box.cols));
  file.read_box(box.name, {box.col, box.cols, box.row, box.rows}, stored.data(), box.rows);
  for (std::int64_t r = 0; r < box.rows; ++r)
    for (std::int64_t c = 0; c < box.cols; ++c)
      out[r * box.cols + c] = stored[static_cast<std::size_t>(c * box.rows + r)];
}

void read(const tensor::Exec& exec, const io::TensorFile& file, const SourceBox& box, const Tensor& out) {
  if constexpr (tensor::kDevice) {
    std::vector<float> rows(static_cast<std::size_t>(out.count()));
    read_box(file, box, rows.data());
    tensor::to_device(exec, out, rows.data());
  } else {
    read_box(file, box, out.as<float>());
  }
}

kernels::GlobalIndex global_index(const SourceBox& box) {
  if (box.stored_transposed) return {box.col * box.global_rows + box.row, 1, box.global_rows};
  return {box.row * box.global_cols + box.col, box.global_cols, 1};
}

}  // namespace

SourceBox clip(const SourceBox& box, std::int64_t first, std::int64_t count) {
  const std::int64_t begin = std::max(box.local_row, first);
  const std::int64_t end = std::min(box.local_row + box.rows, first + count);
  SourceBox part = box;
  part.rows = std::max(std::int64_t{0}, end - begin);
  part.row += begin - box.local_row;
  part.local_row = begin - first;
  return part;
}

void initialise(const tensor::Exec& exec, const fsdp::UnitBuffers& buffers, const std::vector<UnitSpec>& units,
                int shard_rank, std::uint64_t seed, const io::TensorFile* file) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t p = 0; p < units[u].parameters.size(); ++p) {
      const ParameterSpec& spec = units[u].parameters[p];
      const fsdp::ShardLayout& layout = buffers.layout(static_cast<int>(u), static_cast<int>(p));
      const Tensor& kept = buffers.master(static_cast<int>(u))[p];
      const bool split = buffers.options().master_remainder;
      // Nothing is in the gradients yet: there the fp32 values are made that are kept in two halves.
      const Tensor& master = split ? buffers.gradient(static_cast<int>(u))[p] : kept;
      kernels::fill_zero(exec, master);
      for (const SourceBox& source : spec.boxes) {
        SourceBox stored = source;
        if (file != nullptr) {
          stored.name = name_in(*file, source.name);
          check_shape(*file, stored, spec.vector);
        }
        const SourceBox box = clip(stored, layout.first_row(shard_rank), layout.owned_rows(shard_rank));
        if (box.rows == 0) continue;
        const Tensor rows = master.slice(box.local_row, box.rows);
        if (file != nullptr)
          read(exec, *file, box, rows);
        else if (spec.initial == Initial::normal)
          kernels::normal_fill(exec, rows, kernels::random_key(seed, box.name.c_str()), global_index(box),
                               spec.standard_deviation);
        else if (spec.initial == Initial::ones)
          kernels::fill_one(exec, rows);
      }
      if (split) kernels::split_master(exec, kept, buffers.remainder(static_cast<int>(u))[p], master);
    }
  }
}

}  // namespace shard8::model
