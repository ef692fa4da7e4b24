// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/training_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/load.hpp"

namespace shard8::train {

using checkpoint::Manifest;
using checkpoint::ManifestInput;
using checkpoint::ManifestKey;

namespace {

constexpr std::string_view kDecay = "optimizer.decay_steps";
constexpr std::string_view kHeadDim = "model.head_dim";
constexpr std::string_view kExpertFfn = "moe.ffn";
constexpr std::string_view kDispatch = "moe.dispatch";
constexpr std::string_view kValidationContent = "content of data.validation_path";
constexpr std::array<std::string_view, 2> kInputs = {"data.path", "model.init_file"};  // compared by content

bool is_one_of(std::string_view key, std::span<const std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::map<std::string_view, const ManifestKey*> by_name(const std::vector<ManifestKey>& keys) {
  std::map<std::string_view, const ManifestKey*> named;
  for (const ManifestKey& k : keys) named[k.key] = &k;
  return named;
}

std::string shown(const std::string& value) { return value.empty() ? "\"\"" : value; }

std::string shown(const ManifestInput& input) {
  return fmt::format("{} elements with digest {} ('{}')", input.length, input.digest, base::printable(input.path));
}

/// The value of model.head_dim in decks of versions without this key, by the number that `keys` gives for model.hidden
/// and for model.heads; nothing if they are no such numbers.
std::optional<std::string> head_dim_of(const std::map<std::string_view, const ManifestKey*>& keys) {
  const auto number = [&](std::string_view name) {
    std::int64_t value = 0;
    if (const auto found = keys.find(name); found != keys.end()) {
      const std::string& text = found->second->value;
      std::from_chars(text.data(), text.data() + text.size(), value);
    }
    return value;
  };
  const std::int64_t hidden = number("model.hidden"), heads = number("model.heads");
  return heads > 0 ? std::optional(fmt::format("{}", hidden / heads)) : std::nullopt;
}

/// What versions without a key of `now` did, in the key's spelling; nothing if the key changed nothing that they did.
std::optional<std::string> value_before(const ManifestKey& key,
                                        const std::map<std::string_view, const ManifestKey*>& saved) {
  if (key.origin == deck::to_string(deck::Origin::fallback)) return std::nullopt;
  if (key.key == "data.validation") return "0.0";  // they trained on all data
  if (key.key == "model.qk_norm") return "false";
  if (key.key == "moe.experts") return "0";
  if (key.key == kDispatch) return "bf16";
  if (key.key == kHeadDim) return head_dim_of(saved);
  return std::nullopt;
}

template <class Includes>
std::string lines(const std::vector<DeckChange>& changes, Includes&& includes) {
  std::string text;
  for (const DeckChange& change : changes)
    if (includes(change.key)) text += "\n  " + text_of(change);
  return text;
}

}  // namespace

bool may_change_at_restart(const std::string& key) {
  constexpr std::array<std::string_view, 7> kGroups = {"mesh.",       "fsdp.",   "overlap.", "run.",
                                                       "checkpoint.", "verify.", "output."};
  constexpr std::array<std::string_view, 7> kKeys = {
      "model.recompute",  "moe.capacity",         "precision.deterministic", "precision.peak_tflops",
      "data.micro_batch", "data.validation_path", kValidationContent};
  return is_one_of(key, kKeys) ||
         std::any_of(kGroups.begin(), kGroups.end(), [&](std::string_view group) { return key.starts_with(group); });
}

bool must_not_change_at_restart(const std::string& key) {
  constexpr std::array<std::string_view, 13> kKeys = {
      "model.arch",     "model.hidden", "model.ffn",       "model.layers", "model.heads",
      "model.kv_heads", kHeadDim,       "model.qk_norm",   "model.vocab",  "model.tie_embeddings",
      "moe.experts",    kExpertFfn,     "moe.dense_layers"};
  return is_one_of(key, kKeys);
}

std::vector<DeckChange> deck_changes(const std::vector<ManifestKey>& saved, const std::vector<ManifestKey>& now) {
  const auto before = by_name(saved);
  const bool keeps_decay = saved_decay(saved, now).has_value();
  std::vector<DeckChange> changes;
  for (const ManifestKey& k : now) {
    if (is_one_of(k.key, kInputs)) continue;
    const auto found = before.find(k.key);
    if (found == before.end())
      if (const auto value = value_before(k, before); value && *value != k.value)
        changes.push_back({k.key, *value, k.value});
    if (found == before.end() || found->second->value == k.value || (keeps_decay && k.key == kDecay)) continue;
    // Nobody has changed a default that follows from others, as the number of steps that are not timed does.
    const std::string_view fallback = deck::to_string(deck::Origin::fallback);
    const bool derived = may_change_at_restart(k.key) || k.key == kHeadDim || k.key == kExpertFfn || k.key == kDispatch;
    if (derived && k.origin == fallback && found->second->origin == fallback) continue;
    changes.push_back({k.key, found->second->value, k.value});
  }
  return changes;
}

/// Samples follow from the length and model.seq, which is a key of its own.
bool same_content(const std::optional<ManifestInput>& one, const std::optional<ManifestInput>& other) {
  if (!one || !other) return !one && !other;
  return one->length == other->length && one->digest == other->digest;
}

std::vector<DeckChange> input_changes(const Manifest& saved, const Inputs& now) {
  std::vector<DeckChange> changes;
  if (saved.format == 1) return changes;
  if (saved.data && now.data && !same_content(saved.data, now.data))
    changes.push_back({"content of data.path", shown(*saved.data), shown(*now.data)});
  if (now.weights && !same_content(saved.weights, now.weights))
    changes.push_back({"content of model.init_file",
                       saved.weights ? shown(*saved.weights) : "none (it began with random weights)",
                       shown(*now.weights)});
  // A share of data.path has changed with it.
  const bool share = same_content(saved.validation, saved.data) && same_content(now.validation, now.data);
  if (saved.validation && now.validation && !share && !same_content(saved.validation, now.validation))
    changes.push_back({std::string(kValidationContent), shown(*saved.validation), shown(*now.validation)});
  return changes;
}

bool same_validation(const Manifest& saved, const Inputs& now, const std::vector<ManifestKey>& deck) {
  const auto before = by_name(saved.deck), given = by_name(deck);
  const auto same = [&](std::string_view key) {
    const auto one = before.find(key), other = given.find(key);
    if (one == before.end() || other == given.end()) return one == before.end() && other == given.end();
    return one->second->value == other->second->value;
  };
  const auto kind = given.find("data.kind");
  const bool drawn = kind != given.end() && kind->second->value == "synthetic";
  if (!same("data.kind") || !same("data.validation") || !same("model.seq") || (drawn && !same("data.seed")))
    return false;
  if (saved.validation)
    return same_content(saved.validation, now.validation) && saved.validation->samples == now.validation->samples;
  return same("data.validation_path") && same("run.validate_batches") && same("data.batch");
}

bool needs_permission(const std::vector<DeckChange>& changes) {
  return std::any_of(changes.begin(), changes.end(),
                     [](const DeckChange& change) { return !may_change_at_restart(change.key); });
}

bool changes_fp8(const std::vector<DeckChange>& changes) {
  return std::any_of(changes.begin(), changes.end(), [](const DeckChange& change) {
    return change.key.starts_with("fp8.") || change.key == "precision.compute";
  });
}

std::optional<std::int64_t> saved_decay(const std::vector<ManifestKey>& saved, const std::vector<ManifestKey>& now) {
  const auto find = [](const std::vector<ManifestKey>& keys) {
    return std::find_if(keys.begin(), keys.end(), [](const ManifestKey& k) { return k.key == kDecay; });
  };
  const auto before = find(saved), given = find(now);
  if (before == saved.end() || given == now.end() || before->value == given->value ||
      given->origin != deck::to_string(deck::Origin::fallback))
    return std::nullopt;
  std::int64_t steps = 0;
  const char* const end = before->value.data() + before->value.size();
  const auto [rest, error] = std::from_chars(before->value.data(), end, steps);
  constexpr std::int64_t kMost = 2147483647;  // as in decks
  const bool sound = error == std::errc() && rest == end && steps >= 1 && steps <= kMost;
  return sound ? std::optional(steps) : std::nullopt;
}

std::string text_of(const DeckChange& change) {
  return fmt::format("{}: {} in the checkpoint, {} in this deck", change.key, shown(change.before), shown(change.now));
}

void refuse_changes(const std::vector<DeckChange>& changes, bool allow_changes, const std::string& folder) {
  const std::string other_model = lines(changes, must_not_change_at_restart);
  if (!other_model.empty())
    base::fail(base::ExitCode::checkpoint,
               "checkpoint {} is one of another model:{}\n  restart with the deck it was written with; to train this "
               "model, set checkpoint.restart to none, and output.dir and checkpoint.dir to other folders",
               folder, other_model);
  if (allow_changes) return;
  const std::string others = lines(changes, [](const std::string& key) { return !may_change_at_restart(key); });
  if (!others.empty())
    base::fail(base::ExitCode::checkpoint,
               "checkpoint {} was written with another deck:{}\n  to train on all the same, set "
               "checkpoint.allow_changes to true, checkpoint.restart to {}, and output.dir and checkpoint.dir to other "
               "folders; to start anew, set checkpoint.restart to none and the two folders{}",
               folder, others, folder,
               others.find("content of model.init_file") == std::string::npos
                   ? ""
                   : "; the content of weights is values, names and shapes of all tensors in the file, read or not; a "
                     "restart does not read model.init_file: the key can be left out");
}

}  // namespace shard8::train
