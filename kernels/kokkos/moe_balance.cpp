// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/row_sums.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
namespace {

/// Sums over the tokens of one sequence, for kColumns experts. Group g of kGroups adds the probabilities of the tokens
/// g, g + kGroups, and so on; the groups' sums are added as a tree. On a device a thread has one group and one expert.
/// T, the type of the probabilities, is float. The struct is a template because nvcc warns of an operator for hosts
/// that a program for devices does not call, but not in a template.
template <class T>
struct SequenceSums {
  static constexpr std::int64_t kColumns = 8, kGroups = 128;
  static constexpr int kThreads = kColumns * kGroups, kAtOnce = 4;
  using Bounds = Kokkos::LaunchBounds<kThreads, 1>;
  struct Scratch {
    float sum[kGroups][kColumns];
    std::int32_t count[kColumns];
  };
  float* sums;
  const std::int32_t* chosen;
  const T* probabilities;
  const float* token_weights;
  std::int64_t tokens, experts, per_token, sequences, first_token, seq;

  KOKKOS_INLINE_FUNCTION std::int64_t blocks() const { return (experts + kColumns - 1) / kColumns; }

  void operator()(const HostTeam&, std::int64_t task, Scratch& scratch) const {
    const Part part = part_of(task);
    scratch = {};
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      if (token_weights[t] == 0.0f) continue;
      float* const sum = scratch.sum[(t - part.begin) % kGroups];
      const T* const p = probabilities + t * experts + part.expert;
      for (std::int64_t c = 0; c < part.columns; ++c) sum[c] += p[c];
      for (std::int64_t k = 0; k < per_token; ++k) {
        const std::int64_t c = chosen[t * per_token + k] - part.expert;
        if (c >= 0 && c < part.columns) ++scratch.count[c];
      }
    }
    for (std::int64_t step = kGroups / 2; step > 0; step /= 2) {
      for (std::int64_t g = 0; g < step; ++g) {
        for (std::int64_t c = 0; c < kColumns; ++c) scratch.sum[g][c] += scratch.sum[g + step][c];
      }
    }
    for (std::int64_t c = 0; c < part.columns; ++c) write(part, c, scratch);
  }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t task, Scratch& scratch) const {
    const Part part = part_of(task);
    const int rank = team.team_rank();
    const std::int64_t group = rank / kColumns, column = rank % kColumns;
    row_for(team, kColumns, [&](std::int64_t c) { scratch.count[c] = 0; });
    team.team_barrier();
    float sum = 0;
    for (std::int64_t first = part.begin + group; first < part.end; first += kAtOnce * kGroups) {
      float p[kAtOnce];
      bool is[kAtOnce];
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) {
        const std::int64_t t = first + u * kGroups;
        is[u] = column < part.columns && t < part.end && token_weights[t] != 0.0f;
        p[u] = is[u] ? probabilities[t * experts + part.expert + column] : 0.0f;
      }
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) sum += is[u] ? p[u] : 0.0f;
    }
    scratch.sum[group][column] = sum;
    row_for(team, (part.end - part.begin) * per_token, [&](std::int64_t i) {
      const std::int64_t pair = part.begin * per_token + i, c = chosen[pair] - part.expert;
      // The order of these additions of integers changes nothing.
      if (c >= 0 && c < part.columns && token_weights[pair / per_token] != 0.0f)
        Kokkos::atomic_add(&scratch.count[c], 1);
    });
    for (std::int64_t step = kGroups / 2; step > 0; step /= 2) {
      team.team_barrier();
      if (group < step) scratch.sum[group][column] += scratch.sum[group + step][column];
    }
    team.team_barrier();
    row_for(team, part.columns, [&](std::int64_t c) { write(part, c, scratch); });
  }

 private:
  /// This rank's tokens [begin, end) of a sequence, and the experts from `expert` on.
  struct Part {
    std::int64_t sequence, expert, columns, begin, end;
  };
  KOKKOS_INLINE_FUNCTION Part part_of(std::int64_t task) const {
    const std::int64_t sequence = task / blocks(), expert = task % blocks() * kColumns;
    const std::int64_t begin = sequence * seq - first_token, end = begin + seq;
    return {sequence, expert, expert + kColumns < experts ? kColumns : experts - expert, begin > 0 ? begin : 0,
            end < tokens ? end : tokens};
  }
  KOKKOS_INLINE_FUNCTION void write(const Part& part, std::int64_t column, const Scratch& scratch) const {
    const std::int64_t at = part.sequence * experts + part.expert + column;
    sums[at] = static_cast<float>(scratch.count[column]);
    sums[sequences * experts + at] = scratch.sum[0][column];
  }
};

/// The terms of the balance.
struct BalanceTerms {
  const float* sums;
  std::int64_t count;
  double scale;
  KOKKOS_INLINE_FUNCTION double of(std::int64_t i) const {
    return scale * static_cast<double>(sums[i]) * static_cast<double>(sums[count + i]);
  }
  template <class W>
  KOKKOS_INLINE_FUNCTION double operator()(const W&, std::int64_t i) const {
    return of(i);
  }
};

void require_sums(const char* kernel, const tensor::Tensor& sums) {
  SHARD8_REQUIRE(sums.shape.rank() == 3 && sums.shape[0] == 2, "{}: sums is {}, (2, sequences, experts) needed", kernel,
                 tensor::to_string(sums.shape));
}

}  // namespace

void moe_sequence_sums(const Exec& exec, const tensor::Tensor& sums, const tensor::Tensor& chosen,
                       const tensor::Tensor& probabilities, const tensor::Tensor& token_weights,
                       std::int64_t first_token, std::int64_t seq) {
  constexpr auto kName = "moe_sequence_sums";
  require_sums(kName, sums);
  const auto tokens = token_weights.count(), sequences = sums.shape[1], experts = sums.shape[2];
  require_count(kName, "probabilities", probabilities, tokens * experts);
  require_count(kName, "chosen", chosen, tokens * chosen.cols());
  SHARD8_REQUIRE(seq >= 1 && first_token >= 0 && first_token + tokens <= sequences * seq,
                 "{}: tokens {} to {} of {} sequences of {}", kName, first_token, first_token + tokens, sequences, seq);
  using Sums = SequenceSums<float>;
  const Sums of{sums.as<float>(),
                chosen.as<std::int32_t>(),
                probabilities.as<float>(),
                token_weights.as<float>(),
                tokens,
                experts,
                chosen.cols(),
                sequences,
                first_token,
                seq};
  for_rows_with<Sums::Scratch, Sums::Bounds>(exec, "shard8::kernels::moe_sequence_sums", sequences * of.blocks(), of,
                                             Sums::kThreads);
}

void moe_balance(const Exec& exec, const tensor::Tensor& balance, const tensor::Tensor& sums, double coefficient,
                 std::int64_t per_token, std::int64_t seq) {
  constexpr auto kName = "moe_balance";
  require_sums(kName, sums);
  SHARD8_REQUIRE(per_token >= 1 && seq >= 1, "{}: {} experts per token and sequences of {}; at least 1 needed", kName,
                 per_token, seq);
  const auto count = sums.shape[1] * sums.shape[2];
  const auto tokens = static_cast<double>(seq);
  const BalanceTerms terms{
      sums.as<float>(), count,
      coefficient * static_cast<double>(sums.shape[2]) / (static_cast<double>(per_token) * tokens * tokens)};
  add_sum<1>(exec, "shard8::kernels::moe_balance", require_total(kName, balance), count, false, terms,
             [=](std::int64_t first, std::int64_t last) {
               double sum = 0;
               for (auto i = first; i < last; ++i) sum += terms.of(i);
               return sum;
             });
}

}  // namespace shard8::kernels
