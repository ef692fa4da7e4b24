// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "bench/collectives.hpp"
#include "comm/agree.hpp"
#include "tensor/float8.hpp"

namespace shard8::bench {
namespace {

using comm::Communicator;
using profile::Collective;
using tensor::BFloat16;
using tensor::DType;
using tensor::Tensor;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kRow = 16;  ///< elements of which a rank's rows are a multiple; chosen as in bench_collectives

/// The partial sum of a rank: -1, 0 or 1, so that sums are exact.
float partial_sum(std::int64_t i, int rank) { return static_cast<float>((i * 7 + i / 16 + rank * 5) % 3 - 1); }
/// Byte i of a gathered whole.
std::uint8_t gathered_byte(std::int64_t i) { return static_cast<std::uint8_t>((i * 31 + i / 251) % 256); }

float sum_of(std::int64_t i, int ranks) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += partial_sum(i, rank);
  return sum;
}

/// Byte i of what a rank sends in an all-to-all or a send_receive.
std::uint8_t sent_byte(std::int64_t i, int rank) { return gathered_byte(i + 997 * std::int64_t{rank}); }

/// One collective of one tensor, whose memory is `whole`. If the collective is not in place, `in` is what this rank
/// gives, of the same size.
class Case {
 public:
  Case(const Communicator& group, Collective op, const Tensor& whole, const Tensor& in)
      : group_(group), op_(op), whole_(whole), in_(in) {
    const bool all = op == Collective::all_reduce || op == Collective::send_receive;
    const std::int64_t rows = all ? whole.rows() : whole.rows() / group.size();
    first_ = all ? 0 : rows * group.rank();
    own_ = whole.slice(first_, rows);
    counts_.assign(static_cast<std::size_t>(group.size()), rows);
  }

  std::int64_t count() const { return own_.count(); }

  /// What a rank has before the call: its rows of a gather, its partial sums of the whole.
  void fill() const {
    if (!in_place(op_)) {
      std::fill_n(whole_.as<std::uint8_t>(), whole_.count(), std::uint8_t{0});
      for (std::int64_t i = 0; i < in_.count(); ++i) in_.as<std::uint8_t>()[i] = sent_byte(i, group_.rank());
      return;
    }
    if (op_ == Collective::all_gather) {
      std::fill_n(whole_.as<std::uint8_t>(), whole_.count(), std::uint8_t{0});
      for (std::int64_t i = 0; i < own_.count(); ++i) own_.as<std::uint8_t>()[i] = gathered_byte(first_ + i);
      return;
    }
    for (std::int64_t i = 0; i < whole_.count(); ++i) set(i, partial_sum(i, group_.rank()));
  }

  void call() const {
    const std::array<Tensor, 1> one{whole_};
    if (op_ == Collective::all_gather) group_.all_gather_in_place(one).wait();
    if (op_ == Collective::all_reduce) group_.all_reduce(one, Communicator::Reduce::sum).wait();
    if (op_ == Collective::all_to_all)
      group_.all_to_all(std::array{Communicator::AllToAllItem{whole_, in_, counts_, counts_}}).wait();
    if (op_ == Collective::send_receive)
      group_.send_receive(std::array{Communicator::SendReceiveItem{whole_, in_}}, 1).wait();
    if (op_ != Collective::reduce_scatter) return;
    const std::array<Communicator::ReduceScatterItem, 1> item{{{own_, whole_, {}}}};
    group_.reduce_scatter(item).wait();
  }

  /// Elements of this rank's result that are wrong.
  std::uint64_t wrong() const {
    std::uint64_t wrong = 0;
    if (!in_place(op_)) {
      const int before = (group_.rank() + group_.size() - 1) % group_.size();
      for (std::int64_t i = 0; i < whole_.count(); ++i) {
        const bool all = op_ == Collective::all_to_all;
        const std::uint8_t sent =
            all ? sent_byte(first_ + i % own_.count(), static_cast<int>(i / own_.count())) : sent_byte(i, before);
        wrong += whole_.as<std::uint8_t>()[i] != sent;
      }
      return wrong;
    }
    if (op_ == Collective::all_gather) {
      for (std::int64_t i = 0; i < whole_.count(); ++i) wrong += whole_.as<std::uint8_t>()[i] != gathered_byte(i);
      return wrong;
    }
    for (std::int64_t i = first_; i < first_ + own_.count(); ++i) wrong += get(i) != rounded(sum_of(i, group_.size()));
    return wrong;
  }

 private:
  void set(std::int64_t i, float x) const {
    if (whole_.dtype == DType::bf16)
      whole_.as<BFloat16>()[i] = BFloat16(x);
    else
      whole_.as<float>()[i] = x;
  }
  float get(std::int64_t i) const {
    return whole_.dtype == DType::bf16 ? static_cast<float>(whole_.as<BFloat16>()[i]) : whole_.as<float>()[i];
  }
  float rounded(float x) const { return whole_.dtype == DType::bf16 ? static_cast<float>(BFloat16(x)) : x; }

  const Communicator& group_;
  Collective op_;
  Tensor whole_, in_, own_;
  std::vector<std::int64_t> counts_;
  std::int64_t first_ = 0;
};

std::uint64_t elements_of(std::uint64_t bytes, std::size_t size, int ranks) {
  const std::uint64_t step = static_cast<std::uint64_t>(ranks) * kRow;
  return std::max<std::uint64_t>((bytes / size + step - 1) / step, 1) * step;
}

/// The memory of a whole, and of what a rank gives to a collective that is not in place. Collective, so that no rank
/// waits for one that has too little.
void allocate(const Communicator& group, std::uint64_t bytes, std::vector<std::byte>& whole,
              std::vector<std::byte>* given) {
  comm::agree(group, [&] {
    try {
      whole.resize(bytes);
      if (given != nullptr) given->resize(bytes);
    } catch (const std::bad_alloc&) {
      base::fail(base::ExitCode::environment,
                 "cannot allocate {} bytes for a collective of {} bytes: give a smaller --max, or raise the limit on "
                 "this process's memory (ulimit -v, the job's --mem)",
                 given != nullptr ? 2 * bytes : bytes, bytes);
    }
  });
}

CollectiveFigures time_one(const Communicator& group, Collective op, DType dtype, std::uint64_t bytes,
                           const CollectiveSettings& settings) {
  const std::uint64_t elements = elements_of(bytes, size_of(dtype), group.size());
  std::vector<std::byte> memory, given;
  allocate(group, elements * size_of(dtype), memory, in_place(op) ? nullptr : &given);
  const Tensor whole{memory.data(), {static_cast<std::int64_t>(elements)}, dtype};
  const Case one(group, op, whole, {given.data(), whole.shape, dtype});
  double mine_s = 0;
  for (const int repetitions : {settings.warmup, settings.repetitions}) {
    one.fill();
    group.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < repetitions; ++i) one.call();
    mine_s = seconds_since(begin) / repetitions;
  }
  std::array<double, 1> sum{mine_s};
  group.all_reduce(sum, Communicator::Reduce::sum);
  const double mean_s = sum[0] / group.size();
  const profile::CollectiveKey key{op, group.name(), group.size(), std::string(name_of(dtype)), whole.bytes()};
  CollectiveFigures row{.group = group.name(),
                        .ranks = group.size(),
                        .op = op,
                        .dtype = key.dtype,
                        .bytes = key.bytes,
                        .count = static_cast<std::uint64_t>(one.count()),
                        .us = 1e6 * mean_s,
                        .algbw = profile::algbw(key, mean_s),
                        .busbw = profile::busbw(key, mean_s)};
  if (settings.check) {
    one.fill();
    group.barrier();
    one.call();
    std::array<std::uint64_t, 1> wrong{one.wrong()};
    group.all_reduce(wrong, Communicator::Reduce::sum);
    row.wrong = wrong[0];
  }
  return row;
}

}  // namespace

std::uint64_t host_collective_bytes(const CollectiveSettings& settings, int ranks) {
  const std::uint64_t largest = sizes_between(settings.least, settings.most, settings.factor).back();
  return 2 * elements_of(largest, 1, ranks);  // of bytes, and not in place
}

std::vector<CollectiveFigures> bench_host_collectives(const Communicator& group, const CollectiveSettings& settings) {
  SHARD8_REQUIRE(settings.warmup > 0 && settings.repetitions > 0, "{} + {} calls", settings.warmup,
                 settings.repetitions);
  constexpr std::pair<Collective, DType> kKinds[] = {
      {Collective::all_gather, DType::u8},       {Collective::reduce_scatter, DType::fp32},
      {Collective::reduce_scatter, DType::bf16}, {Collective::all_reduce, DType::fp32},
      {Collective::all_to_all, DType::u8},       {Collective::send_receive, DType::u8}};
  std::vector<CollectiveFigures> rows;
  for (const auto& [op, dtype] : kKinds)
    for (const std::uint64_t bytes : sizes_between(settings.least, settings.most, settings.factor))
      rows.push_back(time_one(group, op, dtype, bytes, settings));
  return rows;
}

double average_busbw(std::span<const CollectiveFigures> rows) {
  double sum = 0;
  for (const CollectiveFigures& row : rows) sum += row.busbw;
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

std::string average_text(std::span<const CollectiveFigures> rows) {
  return fmt::format("# Avg bus bandwidth    : {:.4g} GB/s\n", 1e-9 * average_busbw(rows));
}

std::string to_text(std::span<const CollectiveFigures> rows) {
  constexpr const char* kHead = "# {:<14} {:>12} {:>12} {:>5} {:>10} {:>8} {:>8} {:>7}\n";
  std::string text =
      fmt::format(fmt::runtime(kHead), "operation", "size", "count", "type", "time", "algbw", "busbw", "#wrong") +
      fmt::format(fmt::runtime(kHead), "", "(B)", "(elements)", "", "(us)", "(GB/s)", "(GB/s)", "");
  for (const CollectiveFigures& row : rows)
    text += fmt::format("  {:<14} {:>12} {:>12} {:>5} {:>10.2f} {:>8.3f} {:>8.3f} {:>7}\n", name_of(row.op), row.bytes,
                        row.count, row.dtype, row.us, row.algbw * 1e-9, row.busbw * 1e-9,
                        row.wrong ? std::to_string(*row.wrong) : "N/A");
  return text + average_text(rows);
}

std::string to_json(std::span<const CollectiveFigures> rows, const CollectiveSettings& settings,
                    const Measured& measured) {
  Json object{{"schema", kCollectivesSchema},
              {"machine", measured.machine},
              {"version", measured.version},
              {"commit", measured.commit},
              {"date", measured.date}};
  object["config"] = {{"minimum_bytes", settings.least},    {"maximum_bytes", settings.most},
                      {"step_factor", settings.factor},     {"warmup_iters", settings.warmup},
                      {"iterations", settings.repetitions}, {"validation", settings.check}};
  object["results"] = Json::array();
  std::uint64_t wrong = 0;
  for (const CollectiveFigures& row : rows) {
    object["results"].push_back({{"operation", name_of(row.op)},
                                 {"group", row.group},
                                 {"ranks", row.ranks},
                                 {"size", row.bytes},
                                 {"count", row.count},
                                 {"type", row.dtype},
                                 {"time_us", row.us},
                                 {"algbw_bytes_per_s", row.algbw},
                                 {"busbw_bytes_per_s", row.busbw},
                                 {"nwrong", row.wrong ? Json(*row.wrong) : Json(nullptr)}});
    wrong += row.wrong.value_or(0);
  }
  object["out_of_bounds"] = wrong;
  object["average_busbw_bytes_per_s"] = average_busbw(rows);
  return object.dump(2);
}

}  // namespace shard8::bench
