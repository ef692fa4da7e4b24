// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"
#include "operation/executor.hpp"
#include "operation/operation.hpp"
#include "train/setup.hpp"

namespace shard8::project {

/// The version of the format of stack files.
inline constexpr std::int64_t kStackFormat = 1;

/// How the step of another training stack differs from the step that shard8 records for the same deck. The defaults are
/// shard8's own step.
struct Structure {
  /// With model.recompute = selective: the share of each linear's columns that backward computes again, and whether
  /// backward computes attention's forward again.
  std::array<double, operation::kLinears> recomputed{};
  bool attention_recomputed = false;
  bool keys_recomputed = false;  ///< qkv=keys: structure_of() sets the share of qkv to that of the keys' columns

  /// With model.recompute = full: backward computes the last product of a layer again, too, whose result nothing needs.
  bool whole_layer_recomputed = false;
  /// Sums of one amax over all ranks, in each layer and micro-batch, two thirds of them in forward. These sums run on
  /// the compute stream.
  std::int64_t amax_sums = 0;

  bool plain_mlp = false;     ///< the MLP of llama has no gate: one projection to ffn in place of two
  bool whole_head = false;    ///< head and loss compute all tokens of a micro-batch at once, not in chunks
  bool whole_root = false;    ///< embedding, final norm and head are one unit: gathered first, reduced last
  bool gathers_ahead = true;  ///< a step's last operations gather for the next step; else its first gathers are exposed
  bool reduces_late = false;  ///< no reduction of gradients starts before a step's last backward is over
  /// In backward a layer's gather is issued after the reduction of the layer above and waits for it.
  bool gathers_after_reductions = false;
  /// Calls, of equal size, in which a unit's weights are gathered and its gradients reduced.
  int gather_calls = 1, reduce_calls = 1;
  /// The gradients of a layer are reduced in several calls. A rank keeps at most this many bytes of what a call
  /// reduces, unless one weight alone has more. A call starts when the gradients of its weights exist. 0:
  /// `reduce_calls` calls start together when the layer's backward is over.
  double reduce_call_bytes = 0;
  /// Backward goes through the layers in groups of this many. Backward enters a group when all reductions of gradients
  /// of the group before have ended. 0: backward waits for no reduction.
  int reduce_within = 0;

  /// Reductions of gradients wait until this many elements have come together: `bucket`, or `bucket_rank` for each rank
  /// of the reduction if that is more. 0: a unit is reduced alone.
  std::int64_t bucket = 0, bucket_rank = 0;

  tensor::DType gradients = tensor::DType::fp32;  ///< what wgrad writes
  /// Bytes that kernels read and write for each byte gathered over shards (after the gather), reduced over shards
  /// (before the reduction), gathered or reduce-scattered over tensor ranks and not overlapped by parts.
  double gather_copies = 0, reduce_copies = 0, tensor_copies = 0;
  bool residual_kernel = false;   ///< a kernel adds the residual; else the product does it
  double optimizer_bytes = 0;     ///< bytes that the update of one parameter reads and writes; 0: those of the deck
  bool moved_by_kernels = false;  ///< kernels move the bytes of collectives in a node, whatever the machine file says
  double host_issue = 1;          ///< factor of the host's time to issue an operation

  /// Factors of the bytes of kernels, by the beginning of their names. The longest fitting name counts. A factor of 3.4
  /// stands for three kernels, which together move 3.4 times the bytes.
  struct KernelFactor {
    std::string name;  ///< "any": every kernel
    double factor = 1;
  };
  std::vector<KernelFactor> kernels;
};

/// A training stack and its release, read from inputs/stacks/NAME-RELEASE.yaml (docs/projection.md).
struct Stack {
  std::string path;
  std::string name, release, note;
  std::string rows;  ///< the stack's name in rows of scripts/validate
  /// Replicas of rows of scripts/validate are shard ranks of the deck: optimizer states are sharded, weights are not.
  bool replicas_are_shards = false;

  /// A group of the file that counts in some decks only.
  enum class When : std::uint8_t { always, bf16, fp8, tensor, fp8_tensor, overlap };
  struct Override {
    When when = When::always;
    std::string text;  ///< "group.key=value"
  };
  std::vector<Override> deck;
  struct Setting {
    When when = When::always;
    std::string key, value;
  };
  std::vector<Setting> settings;  ///< checked
  std::vector<Structure::KernelFactor> kernels;
};

/// Reads a stack file. Throws base::Error(deck) with all errors at once, each with its place, as decks have them.
Stack read_stack(const std::string& path);
/// As read_stack(), of a text that was already read. `name` is its name in messages.
Stack read_stack_text(std::string_view text, const std::string& name);

/// The keys of the group `structure`, as a table in Markdown.
std::string stack_keys_table();

/// The stack's overrides for a deck: those of the groups deck, deck_bf16 or deck_fp8 (fp8.recipe), deck_tensor (more
/// than one tensor rank), deck_fp8_tensor (both) and deck_overlap (overlap.enable), in this order. `config` is the deck
/// without them.
std::vector<std::string> overrides(const Stack& stack, const deck::Config& config);

/// What the file says for a deck: the groups structure, structure_bf16 or structure_fp8, structure_tensor,
/// structure_fp8_tensor and structure_overlap; later groups replace earlier ones. `config` is the deck with the
/// overrides.
Structure structure_of(const Stack& stack, const deck::Config& config);

/// The step of the stack: the recorded operations, changed, dropped and added to. Each collective outside the compute
/// stream is waited for once, after it was issued, unless it is one of `ahead`. A collective that nothing waits for any
/// more is waited for by the first operation of the optimizer after it.
operation::Operations transformed(const Structure& structure, const train::Setup& setup, operation::Operations step);

/// As train::record_step(), of the stack's step.
std::vector<int> record_step(const Structure& structure, const train::Setup& setup, const train::StepOfRun& step,
                             const operation::Recorder::Sink& sink);

}  // namespace shard8::project
