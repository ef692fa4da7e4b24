// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/agree.hpp"

#include <array>
#include <cstdint>
#include <exception>
#include <vector>

namespace shard8::comm {
namespace {

struct Outcome {
  std::uint64_t code = 0;  // 0: well
  std::string message;
};

Outcome run(const std::function<void()>& action) {
  constexpr auto kFailed = static_cast<std::uint64_t>(base::ExitCode::failed);
  try {
    action();
    return {};
  } catch (const base::Error& e) {
    return {static_cast<std::uint64_t>(e.code()), e.what()};
  } catch (const std::exception& e) {
    return {kFailed, e.what()};
  } catch (...) {
    return {kFailed, "an exception of unknown type was thrown"};
  }
}

}  // namespace

void agree(const Communicator& group, const std::function<void()>& action) {
  const Outcome mine = run(action);
  std::array<std::uint64_t, 1> worst{mine.code};
  group.all_reduce(worst, Communicator::Reduce::max);
  if (worst[0] == 0) return;

  const std::vector<double> codes = group.all_gather(std::array<double, 1>{static_cast<double>(mine.code)});
  const std::vector<std::string> messages = group.all_gather(mine.message);
  std::size_t first = codes.size(), failed = 0;
  for (std::size_t rank = codes.size(); rank-- > 0;) {
    if (codes[rank] == 0) continue;
    first = rank;
    ++failed;
  }
  const std::string prefix = failed == codes.size() ? std::string() : fmt::format("rank {}: ", first);
  throw AgreedError(static_cast<base::ExitCode>(static_cast<int>(codes[first])), prefix + messages[first],
                    group.size());
}

void agree_on_root(const Communicator& group, int root, const std::function<void()>& action) {
  Outcome outcome;
  if (group.rank() == root) outcome = run(action);
  std::array<std::uint64_t, 1> code{outcome.code};
  group.all_reduce(code, Communicator::Reduce::max);
  if (code[0] == 0) return;
  group.broadcast(outcome.message, root);
  throw AgreedError(static_cast<base::ExitCode>(static_cast<int>(code[0])), outcome.message, group.size());
}

}  // namespace shard8::comm
