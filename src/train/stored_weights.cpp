// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/stored_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "fp8/scaling_state.hpp"
#include "model/parameters.hpp"
#include "tensor/operand.hpp"

namespace shard8::train {

namespace {

using checkpoint::Content;
using tensor::E4M3;
using tensor::Scaling;

/// Elements of a panel of rows. Chosen: 16 MiB of masters.
constexpr std::int64_t kPanel = std::int64_t{4} << 20;
/// The rows of a panel are a multiple of it, which the rows of every block divide.
constexpr std::int64_t kWholeBlocks = 128;
/// Messages about values of the same kind are cut here: one damaged history or recipe concerns every weight. Chosen.
constexpr std::size_t kMostProblems = 20;

/// One stored copy of a weight: two contents and how its blocks lie in the file's tensor.
struct Copy {
  Content data, scale_inv;
  std::int64_t block_rows = 1, block_cols = 1;
  bool narrow = false;
};

/// A tensor of the file with a weight in FP8.
struct Source {
  std::string name;
  std::int64_t rows = 0, cols = 0;  ///< as stored
  bool transposed = false;
};

std::vector<Source> sources_of(const model::ParameterSpec& parameter) {
  std::vector<Source> sources;
  for (const model::SourceBox& s : parameter.sources)
    if (sources.empty() || sources.back().name != s.name)
      sources.push_back({s.name, s.stored_rows(), s.stored_cols(), s.stored_transposed});
  return sources;
}

class Verifier {
 public:
  Verifier(const checkpoint::Checkpoint& checkpoint, const checkpoint::Masters& masters, const deck::Config& config)
      : checkpoint_(checkpoint),
        masters_(masters),
        config_(config),
        format_(model::WeightFormat::make(config)),
        recipe_(format_.recipe) {}

  std::vector<std::string> operator()() {
    read_state();
    const auto units = model::make_units(config_.model);
    for (const model::UnitSpec& unit : units) {
      for (const model::ParameterSpec& parameter : unit.parameters) {
        const fp8::Site site = format_.site(unit, parameter);
        if (site.on() && format_.stored())
          check_weight(site, parameter);
        else
          for (const Source& source : sources_of(parameter)) check_plain(source);
      }
    }
    if (problems_.size() > kMostProblems) {
      const std::size_t more = problems_.size() - kMostProblems;
      problems_.resize(kMostProblems);
      problems_.push_back(fmt::format("{}: {} more tensors with wrong values", checkpoint_.folder, more));
    }
    return problems_;
  }

 private:
  static std::string name_of(Content content) { return std::string(checkpoint::name_of(content)); }

  const checkpoint::ManifestTensor& tensor(const std::string& name, Content content) const {
    const auto* const found = masters_.find(name, content);
    if (found == nullptr)
      base::fail(base::ExitCode::checkpoint,
                 "{}: there is no tensor {}, {}, which its deck needs: use another checkpoint", checkpoint_.folder,
                 name, name_of(content));
    return *found;
  }

  /// Reads rows of any tensor. T has the size of its elements.
  template <class T>
  void read(const std::string& name, Content content, const io::Box& box, std::vector<T>& out) const {
    out.resize(static_cast<std::size_t>(box.count()));
    masters_.read(tensor(name, content), box, reinterpret_cast<std::byte*>(out.data()),
                  box.cols * static_cast<std::int64_t>(sizeof(T)));
  }

  /// The inverse scale of a weight with one scale.
  float inverse_scale(const std::string& name) const {
    float inverse = 0;
    masters_.read(tensor(name, Content::fp8_rowwise_scale_inv), {0, 1, 0, 1}, reinterpret_cast<std::byte*>(&inverse),
                  sizeof(inverse));
    return inverse;
  }

  void problem(const std::string& name, Content content, const std::string& what) {
    problems_.push_back(fmt::format("{}: tensor {}, {}: {}; restart from another checkpoint", checkpoint_.folder, name,
                                    name_of(content), what));
  }

  /// Reads the scaling state of all matrices, if the recipe has any.
  void read_state() {
    if (!recipe_.per_tensor() || !format_.stored()) return;
    const std::int64_t of_role = recipe_.layers * fp8::kLinears, weights = state_.matrices(fp8::Role::weight);
    const std::int64_t all = (fp8::kRoles - 1) * of_role + weights;
    const std::int64_t scales = recipe_.delayed() ? all : weights;
    const auto read_numbers = [&](Content content, std::int64_t count, auto& out) {
      const std::int64_t rows = weights > of_role ? count : count / of_role;  // one dimension with experts
      read_whole(content, rows, count / rows, out);
    };
    read_numbers(Content::fp8_scale, scales, scales_);
    if (!recipe_.delayed()) return;
    read_numbers(Content::fp8_amax_history, all * recipe_.amax_history, history_);
    read_whole(Content::fp8_history_entries, fp8::kRoles, 1, entries_);
    if (const auto why = fp8::ScalingState::problem_of_entries(entries_, checkpoint_.manifest.step); !why.empty())
      problem("scaling_state", Content::fp8_history_entries, why);
  }
  template <class T>
  void read_whole(Content content, std::int64_t rows, std::int64_t cols, std::vector<T>& out) {
    const std::string name = "scaling_state";
    const std::vector<std::int64_t> needed =
        cols == 1 ? std::vector<std::int64_t>{rows} : std::vector<std::int64_t>{rows, cols};
    if (tensor(name, content).shape != needed)
      base::fail(base::ExitCode::checkpoint, "{}: tensor {}, {} has not {} x {} elements: use another checkpoint",
                 checkpoint_.folder, name, name_of(content), rows, cols);
    read(name, content, {0, rows, 0, cols}, out);
  }

  /// Masters as they are cast: the bf16 half of a split master, else rounded to bf16 where the recipe does so.
  void round_as_cast(const std::string& name, std::vector<float>& values) const {
    if (masters_.is_split(name)) {
      for (float& x : values) {
        const auto bits = std::bit_cast<std::uint32_t>(x);
        if (magnitude(x) <= 0x7f800000u) x = std::bit_cast<float>((bits + 0x8000u) & 0xffff0000u);
      }
    } else if (recipe_.through_bf16) {
      for (float& x : values) x = static_cast<float>(tensor::BFloat16(x));
    }
  }

  /// Calls visit(rows, masters as they are cast) for panels of whole blocks. With `finite` it looks for masters that
  /// are not finite.
  template <class Visit>
  void for_panels(const Source& source, bool finite, const Visit& visit) {
    const std::int64_t whole = kPanel / source.cols / kWholeBlocks * kWholeBlocks;
    const std::int64_t rows_at_once = std::clamp(whole, kWholeBlocks, std::max(source.rows, kWholeBlocks));
    std::vector<float> values;
    for (std::int64_t row = 0; row < source.rows; row += rows_at_once) {
      const io::Box box = io::clip_rows({0, source.rows, 0, source.cols}, row, rows_at_once);
      values.resize(static_cast<std::size_t>(box.count()));
      masters_.read_box(source.name, box, values.data(), box.cols);
      const bool split = masters_.is_split(source.name);  // products read its bf16 half
      if (finite && !split) finite = look_for_infinite(source.name, box, values);
      round_as_cast(source.name, values);
      if (finite && split) finite = look_for_infinite(source.name, box, values);
      visit(box, values);
    }
  }

  /// True if all are finite, else a problem.
  bool look_for_infinite(const std::string& name, const io::Box& box, const std::vector<float>& values) {
    const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return magnitude(x) >= 0x7f800000u; });
    if (bad == values.end()) return true;
    const auto at = bad - values.begin();
    problem(name, Content::master,
            fmt::format("element ({}, {}) is {}", box.row0 + at / box.cols, box.col0 + at % box.cols, *bad));
    return false;
  }

  /// A weight that is not kept in FP8. Vectors have one column.
  void check_plain(const Source& source) {
    for_panels(source, true, [](const io::Box&, const std::vector<float>&) {});
  }

  void check_weight(const fp8::Site& site, const model::ParameterSpec& parameter) {
    const std::vector<Source> sources = sources_of(parameter);
    if (recipe_.per_tensor()) {
      const std::size_t of_each = sources.size() / static_cast<std::size_t>(parameter.groups);
      for (std::size_t g = 0; g * of_each < sources.size(); ++g) {
        const auto first = sources.begin() + static_cast<std::ptrdiff_t>(g * of_each);
        const bool one = site.expert < 0;
        check_one_scale(one ? site : site.of_expert(static_cast<std::int64_t>(g)),
                        {first, first + static_cast<std::ptrdiff_t>(of_each)});
      }
      return;
    }
    for (const Source& source : sources) {
      bool first = true;
      for (const Copy& copy : copies(source)) {
        check_blocks(source, copy, first);
        first = false;
      }
    }
  }

  std::vector<Copy> copies(const Source& source) const {
    const auto copy = [&](Content data, Content scale_inv, Scaling scaling) {
      Copy c{data, scale_inv, tensor::block_rows(scaling), tensor::block_cols(scaling),
             tensor::scale_dtype(scaling) == tensor::DType::e8m0};
      if (source.transposed) std::swap(c.block_rows, c.block_cols);
      return c;
    };
    std::vector<Copy> all{
        copy(Content::fp8_rowwise, Content::fp8_rowwise_scale_inv, recipe_.rowwise(fp8::Role::weight))};
    if (recipe_.two_copies(fp8::Role::weight))
      all.push_back(
          copy(Content::fp8_columnwise, Content::fp8_columnwise_scale_inv, recipe_.columnwise(fp8::Role::weight)));
    return all;
  }

  void check_blocks(const Source& source, const Copy& copy, bool finite) {
    bool good = true;
    const std::int64_t blocks = source.cols / copy.block_cols;
    std::vector<std::uint32_t> amax(static_cast<std::size_t>(blocks)), wide;
    std::vector<BlockScale> scales(amax.size());
    std::vector<std::uint8_t> bytes, narrow;
    for_panels(source, finite, [&](const io::Box& box, const std::vector<float>& values) {
      if (!good) return;
      read(source.name, copy.data, box, bytes);
      const io::Box scale_box{box.row0 / copy.block_rows, box.rows / copy.block_rows, 0, blocks};
      copy.narrow ? read(source.name, copy.scale_inv, scale_box, narrow)
                  : read(source.name, copy.scale_inv, scale_box, wide);
      for (std::int64_t row = 0; good && row < box.rows; row += copy.block_rows) {
        const float* const x = values.data() + row * box.cols;
        find_scales(x, copy, blocks, amax, scales);
        for (std::int64_t b = 0; good && b < blocks; ++b) {
          const auto at = static_cast<std::size_t>(row / copy.block_rows * blocks + b);
          const std::uint32_t stored = copy.narrow ? narrow[at] : wide[at];
          if (stored == scales[static_cast<std::size_t>(b)].inverse) continue;
          good = false;
          problem(source.name, copy.scale_inv,
                  fmt::format("element ({}, {}) has the bits {:#x}; its master gives {:#x}",
                              box.row0 / copy.block_rows + row / copy.block_rows, b, stored,
                              scales[static_cast<std::size_t>(b)].inverse));
        }
        auto i = static_cast<std::size_t>(row * box.cols);
        for (std::int64_t r = 0; good && r < copy.block_rows; ++r) {
          for (std::size_t b = 0; good && b < scales.size(); ++b) {
            for (std::int64_t c = 0; good && c < copy.block_cols; ++c, ++i)
              good = same_byte(source.name, copy.data, box, i, bytes[i], E4M3(values[i] * scales[b].factor));
          }
        }
      }
    });
  }

  /// The scales of a row of blocks.
  void find_scales(const float* x, const Copy& copy, std::int64_t blocks, std::vector<std::uint32_t>& amax,
                   std::vector<BlockScale>& scales) const {
    std::fill(amax.begin(), amax.end(), 0);
    for (std::int64_t r = 0; r < copy.block_rows; ++r)
      for (std::int64_t b = 0; b < blocks; ++b)
        for (std::int64_t c = 0; c < copy.block_cols; ++c, ++x)
          amax[static_cast<std::size_t>(b)] = std::max(amax[static_cast<std::size_t>(b)], magnitude(*x));
    for (std::size_t b = 0; b < scales.size(); ++b)
      scales[b] = copy.narrow ? narrow_block(amax[b]) : wide_block(amax[b], recipe_.power_of_2);
  }

  /// True if the byte of element `i` of the panel is the derived one, else a problem.
  bool same_byte(const std::string& name, Content content, const io::Box& box, std::size_t i, std::uint8_t stored,
                 E4M3 derived) {
    if (stored == derived.bits) return true;
    const auto at = static_cast<std::int64_t>(i);
    problem(name, content,
            fmt::format("element ({}, {}) is {:#04x}; its master gives {:#04x}", box.row0 + at / box.cols,
                        box.col0 + at % box.cols, stored, derived.bits));
    return false;
  }

  void check_one_scale(const fp8::Site& site, const std::vector<Source>& sources) {
    const auto column = static_cast<std::size_t>(state_.index(site));
    const std::string& first = sources.front().name;
    const float inverse = inverse_scale(first);
    for (const Source& source : sources) {
      const float other = inverse_scale(source.name);
      if (std::bit_cast<std::uint32_t>(other) != std::bit_cast<std::uint32_t>(inverse))
        problem(source.name, Content::fp8_rowwise_scale_inv,
                fmt::format("is {}, and {} has {}, but they are one weight with one scale", other, first, inverse));
    }
    std::uint32_t amax = 0;
    for (const Source& source : sources) {
      for_panels(source, true, [&](const io::Box&, const std::vector<float>& values) {
        for (const float x : values) amax = std::max(amax, magnitude(x));
      });
    }
    std::vector<float> scales;
    if (recipe_.delayed()) {
      check_history(first, amax, column);
      scales = scales_with_inverse(inverse);
    } else {
      scales = {scale_of(amax, recipe_.rule(fp8::Role::weight)).value_or(1.0f)};
      if (scales[0] != scales_[column]) wrong_scale(Content::fp8_scale, 0, column, scales_[column], scales[0]);
      if (1.0f / scales[0] != inverse) scales.clear();
    }
    if (scales.empty()) {
      problem(first, Content::fp8_rowwise_scale_inv,
              fmt::format("is {}, which is the inverse of no scale{}", inverse,
                          recipe_.delayed() ? "" : " of its masters"));
      return;
    }
    for (const Source& source : sources)
      if (!check_bytes(source, scales)) return;
  }

  void wrong_scale(Content content, std::size_t row, std::size_t column, float stored, float derived) {
    problem("scaling_state", content,
            fmt::format("element ({}, {}) is {}; masters and history give {}", row, column, stored, derived));
  }

  /// The newest row of the history of weights has the amax of this weight, and fp8_scale the scale of the history.
  void check_history(const std::string& name, std::uint32_t amax, std::size_t column) {
    constexpr auto kWeights = static_cast<std::size_t>(fp8::Role::weight);
    const auto length = static_cast<std::size_t>(recipe_.amax_history);
    const auto columns = static_cast<std::size_t>(state_.matrices(fp8::Role::weight));
    const auto before = static_cast<std::size_t>(recipe_.layers * fp8::kLinears);  // scales of the role before
    const std::int32_t entries = entries_[kWeights];
    if (entries <= 0) return;  // read_state() has said so
    const auto at = [&](std::size_t row) {
      return static_cast<std::uint32_t>(history_[before * length + row * columns + column]);
    };
    const auto filled = std::min(static_cast<std::size_t>(entries), length);
    const std::size_t newest = (static_cast<std::size_t>(entries) - 1) % length;
    if (at(newest) != amax) {
      problem("scaling_state", Content::fp8_amax_history,
              fmt::format("element ({}, {}) has the bits {:#x}; the masters of {} give {:#x}",
                          kWeights * length + newest, column, at(newest), name, amax));
    }
    std::uint32_t most = at(newest);
    for (std::size_t row = 0; recipe_.amax_algo == deck::AmaxAlgo::max && row < filled; ++row)
      most = std::max(most, at(row));
    const auto scale = scale_of(most, recipe_.rule(fp8::Role::weight));  // without one, the scale stays what it was
    const float stored = scales_[before + column];
    if (scale && *scale != stored) wrong_scale(Content::fp8_scale, kWeights, column, stored, *scale);
  }

  /// True if the bytes are those of one of the scales; scales with which they are not are removed.
  bool check_bytes(const Source& source, std::vector<float>& scales) {
    std::vector<std::uint8_t> bytes;
    for_panels(source, false, [&](const io::Box& box, const std::vector<float>& values) {
      if (scales.empty()) return;
      read(source.name, Content::fp8_rowwise, box, bytes);
      std::size_t farthest = 0;  // the element that differs with the best of the scales
      E4M3 derived;
      std::erase_if(scales, [&](float scale) {
        std::size_t i = 0;
        while (i < bytes.size() && E4M3(values[i] * scale).bits == bytes[i]) ++i;
        if (i == bytes.size()) return false;
        if (i >= farthest) {
          farthest = i;
          derived = E4M3(values[i] * scale);
        }
        return true;
      });
      if (scales.empty()) same_byte(source.name, Content::fp8_rowwise, box, farthest, bytes[farthest], derived);
    });
    return !scales.empty();
  }

  const checkpoint::Checkpoint& checkpoint_;
  const checkpoint::Masters& masters_;
  const deck::Config& config_;
  model::WeightFormat format_;
  const fp8::Recipe& recipe_;
  tensor::Arena no_memory_ = tensor::Arena::measure("scaling state", tensor::MemoryKind::weights);
  const fp8::ScalingState state_{recipe_, no_memory_};  ///< knows the places of matrices
  std::vector<float> scales_;
  std::vector<std::int32_t> history_, entries_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> problems_of_values(const checkpoint::Checkpoint& checkpoint,
                                            const checkpoint::Masters& masters, const deck::Config& config) {
  return Verifier(checkpoint, masters, config)();
}

}  // namespace shard8::train
