// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/train/training.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/setup.hpp"

namespace shard8::test {

namespace {

using operation::to_text;

constexpr std::string_view kKernels = "shard8::kernels::", kPhases = "shard8::step::";

/// A list of events, one line for each.
class Lines {
 public:
  void add(const std::string& line) { lines_.push_back(line); }
  /// Adds one line for several launches in a row.
  void add_kernel(const std::string& line) {
    if (lines_.empty() || lines_.back() != line) add(line);
  }
  void drop_last() { lines_.pop_back(); }
  const std::vector<std::string>& all() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

std::string line_of(std::string_view what, profile::Collective op, std::string_view group, int ranks,
                    std::uint64_t bytes, std::string_view dtype) {
  return fmt::format("{} {} in {} of {}: {} bytes of {}", what, profile::name_of(op), group, ranks, bytes, dtype);
}

/// The lines for lists of operations, one list for each step.
class Listed {
 public:
  void add(const operation::Operations& step) {
    for (const auto& operation : step.list) {
      for (const int w : operation.waits)
        wait(w < 0 ? ahead_.at(static_cast<std::size_t>(-1 - w))
                   : *step.list[static_cast<std::size_t>(w)].collective());
      if (const auto* c = operation.collective()) {
        if (c->host_values) continue;
        for (const auto& part : c->payloads)
          lines_.add(in_phase(operation, line_of("issue", c->op, name_of(c->group), c->ranks, part.bytes,
                                                 tensor::name_of(part.dtype))));
        if (operation.stream == operation::Stream::compute) wait(*c);
      } else if (const auto* k = operation.kernel()) {
        kernels_.insert(std::string(k->name));
        lines_.add_kernel(in_phase(operation, std::string(k->name)));
      } else if (const auto* p = operation.product()) {
        lines_.add(in_phase(operation, to_text(*p)));
      } else {
        lines_.add(in_phase(operation, to_text(*operation.attention())));
      }
    }
    ahead_.clear();
    for (const int index : step.ahead) ahead_.push_back(*step.list[static_cast<std::size_t>(index)].collective());
  }
  const std::vector<std::string>& lines() const { return lines_.all(); }
  const std::set<std::string>& kernels() const { return kernels_; }

 private:
  static std::string in_phase(const operation::Operation& operation, const std::string& line) {
    return fmt::format("[{}] {}", profile::name_of(operation.phase), line);
  }
  /// Adds a line on hosts only: devices wait in their streams, where a test cannot see it.
  void wait(const operation::Collective& c) {
    if constexpr (!tensor::kDevice) {
      for (const auto& part : c.payloads)
        lines_.add(line_of("wait for", c.op, name_of(c.group), c.ranks, part.bytes, tensor::name_of(part.dtype)));
    }
  }

  Lines lines_;
  std::set<std::string> kernels_;
  std::vector<operation::Collective> ahead_;
};

/// Records until it is destroyed. There may be one at a time, since the callbacks of Kokkos are plain functions.
class Recording {
 public:
  Recording(Training& training, const std::set<std::string>& kernels) : training_(training), kernels_(kernels) {
    current() = this;
    observer_.product = [this](const auto& product) { lines_.add(in_phase(to_text(product))); };
    observer_.attention = [this](const auto& attention) { lines_.add(in_phase(to_text(attention))); };
    training_.trainer().observe(&observer_);
    profile::CollectiveLog::Watcher watcher;
    watcher.issued = [this](const profile::CollectiveKey& k) { lines_.add(in_phase(text("issue", k))); };
    if (!tensor::kDevice)
      watcher.recorded = [this](const profile::CollectiveKey& k) { lines_.add(text("wait for", k)); };
    training_.log().set_watcher(std::move(watcher));
    namespace Tools = Kokkos::Tools::Experimental;
    const auto launch = [](const char* label, std::uint32_t, std::uint64_t*) { current()->launched(label); };
    Tools::set_begin_parallel_for_callback(launch);
    Tools::set_begin_parallel_reduce_callback(launch);
    Tools::set_begin_parallel_scan_callback(launch);
    Tools::set_push_region_callback([](const char* name) { current()->regions_.emplace_back(name); });
    Tools::set_pop_region_callback([] { current()->regions_.pop_back(); });
  }
  ~Recording() {
    namespace Tools = Kokkos::Tools::Experimental;
    Tools::set_begin_parallel_for_callback(nullptr);
    Tools::set_begin_parallel_reduce_callback(nullptr);
    Tools::set_begin_parallel_scan_callback(nullptr);
    Tools::set_push_region_callback(nullptr);
    Tools::set_pop_region_callback(nullptr);
    training_.log().set_watcher({});
    training_.trainer().observe(nullptr);
    current() = nullptr;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  const std::vector<std::string>& lines() const { return lines_.all(); }

 private:
  static Recording*& current() {
    static Recording* recording = nullptr;
    return recording;
  }
  static std::string text(std::string_view what, const profile::CollectiveKey& key) {
    return line_of(what, key.op, key.group, key.group_size, key.bytes, key.dtype);
  }
  std::string in_phase(const std::string& line) const {
    const auto phase = std::find_if(regions_.rbegin(), regions_.rend(),
                                    [](const std::string& region) { return region.starts_with(kPhases); });
    return fmt::format("[{}] {}", phase == regions_.rend() ? "other" : phase->substr(kPhases.size()), line);
  }

  void launched(std::string_view label) {
    if (!label.starts_with(kKernels)) return;
    label.remove_prefix(kKernels.size());
    if (of_a_product_or_attention(label)) return;
    const std::string name(label);
    if (part_of_adamw(name)) return;
    if (!kernels_.contains(name) && part_of_another(name)) return;
    // The kernel of an activation's gradient may be two launches if it also recomputes the activation. They count as
    // one.
    for (const auto* activation : {"swiglu", "gelu"})
      if (name == fmt::format("{}_backward", activation) && !lines_.all().empty() &&
          lines_.all().back() == in_phase(fmt::format("{}_forward", activation)))
        lines_.drop_last();
    lines_.add_kernel(in_phase(name));
  }
  bool of_a_product_or_attention(std::string_view label) const {
    const bool in_product = std::any_of(regions_.begin(), regions_.end(), [](const std::string& region) {
      return region.starts_with("shard8::kernels::gemm_");
    });
    if (in_product || label == "transpose_bytes" || label == "dequantize") return true;
    return label.starts_with("attention_") || label.starts_with("portable_attention_") || label.starts_with("gemm_");
  }
  /// Whether the launch belongs to AdamW, which also sums squares if the deck does not clip; on hosts in a kernel of
  /// its own.
  bool part_of_adamw(const std::string& name) const {
    return training_.setup().config.optimizer.clip == 0 && in_phase("").starts_with("[optimizer]") &&
           name == "square_parts";
  }
  /// Whether this is a further launch of a kernel that has several. Its name is that of the kernel with an ending.
  bool part_of_another(const std::string& name) const {
    return std::any_of(kernels_.begin(), kernels_.end(),
                       [&](const std::string& kernel) { return name.starts_with(kernel + '_'); });
  }

  Training& training_;
  const std::set<std::string>& kernels_;
  operation::Observer observer_;
  std::vector<std::string> regions_;
  Lines lines_;
};

/// A text that shows where two lists first differ, with the lines around this place; empty if they are equal.
std::string difference(const std::vector<std::string>& listed, const std::vector<std::string>& recorded) {
  const auto [a, b] = std::mismatch(listed.begin(), listed.end(), recorded.begin(), recorded.end());
  if (a == listed.end() && b == recorded.end()) return {};
  const auto at = a - listed.begin();
  std::string text = fmt::format("line {} of {} listed, {} recorded\n", at, listed.size(), recorded.size());
  for (auto i = std::max<std::ptrdiff_t>(0, at - 8); i < at; ++i)
    text += fmt::format("  both      {}\n", listed[static_cast<std::size_t>(i)]);
  for (auto i = a; i != listed.end() && i - a < 6; ++i) text += fmt::format("  listed    {}\n", *i);
  for (auto i = b; i != recorded.end() && i - b < 6; ++i) text += fmt::format("  recorded  {}\n", *i);
  return text;
}

}  // namespace

void expect_listed_operations(Training& training) {
  const std::int64_t steps = training.setup().config.run.steps;
  Listed listed;
  for (std::int64_t step = 0; step < steps; ++step)
    listed.add(train::record_step(training.setup(), {step == 0, step + 1 == steps}));
  Recording recording(training, listed.kernels());
  training.run(0, 1);
  training.log().clear();  // with delayed scaling the first step differs from the planned one
  training.run(1, steps - 1);
  const std::string text = difference(listed.lines(), recording.lines());
  EXPECT_TRUE(text.empty()) << text;
}

}  // namespace shard8::test
