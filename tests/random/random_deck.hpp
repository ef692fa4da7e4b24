// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"
#include "tests/random/draw.hpp"

namespace shard8::test {

/// The fewest numbers that a norm takes: model.hidden, and the width of heads with model.qk_norm. The norm of few
/// numbers may be so small that its gradient is mostly rounding.
inline constexpr std::int64_t kLeastNormed = 8;

/// The file that a drawn deck reads: its kind, and how many samples a stream has.
struct DataSource {
  enum class Form { none, text_file, text_folder, token_stream, token_slabs };
  Form form = Form::none;
  std::int64_t samples = 1;
};

/// The keys that change when something is computed or gathered, but do not change a bit of a training on one mesh
/// (docs/mesh.md, docs/fp8.md).
struct Schedule {
  deck::Recompute recompute = deck::Recompute::none;
  bool reshard_after_forward = true;
  std::int64_t prefetch = 1;
  deck::Gather gather = deck::Gather::automatic;
  deck::Fp8Weights weights = deck::Fp8Weights::fp8;  ///< with delayed scaling always that of the deck
  bool deterministic = true;
  deck::OverlapConfig overlap = {};
  std::int64_t validate_every = 0;
};

/// The file of model.init_file, with the values that the training would draw without one.
enum class WeightFile : std::uint8_t { none, hdf5, hdf5_bits, safetensors, checkpoint };

/// Thresholds of the program beyond which it does something in another way (tests/train/training.hpp); 0: its own.
struct Limits {
  int direct_ranks = 0;            ///< comm::Limits; changes no bit
  std::int64_t message_bytes = 0;  ///< comm::Limits; changes no bit
  int threads = 0;                 ///< of kernels, not of the BLAS; changes no bit
};

/// A skeleton of the communication of a deck, which runs beside its trainings: of the step on hosts, or on devices.
enum class SkeletonJob : std::uint8_t { none, host, cuda };

/// What begins a training, and in which way it trains, beside the keys of its deck.
struct Setting {
  Limits limits;
  WeightFile weights = WeightFile::none;
};

/// Keys with other values from a step on: a restart with checkpoint.allow_changes.
struct Change {
  deck::OptimizerConfig optimizer;
  std::uint64_t data_seed = 0;
  std::int64_t fp8_margin = 0;
};

/// How a training that run.stop_after stopped goes on from a checkpoint.
struct Restart {
  std::int64_t first = 0;  ///< its first step
  std::int64_t until = 0;  ///< its last step + 1; 0: all steps of the deck
  /// From a checkpoint that checkpoint.restart names, which may be older than the last one, into another folder.
  bool other_folder = false;
  Limits limits{};
  bool same_mesh = true;  ///< on the mesh of the deck, with its micro-batches; the two members below do not count
  deck::MeshConfig mesh;  ///< otherwise on this one
  std::int64_t micro_batch = 0;  ///< and with these micro-batches
  Schedule schedule;             ///< its `weights` do not count: they are those of the deck
  bool async = true;
  deck::CheckpointFiles files = deck::CheckpointFiles::rank;
};

/// A deck that was drawn, its data, a second schedule that must give the same bits on the same mesh, and how a stopped
/// training goes on: restarts, which are there only if run.stop_after is not 0.
struct RandomDeck {
  deck::Config config;
  DataSource source;
  Schedule second;
  std::vector<Restart> restarts{};
  std::optional<Change> change{};       ///< made by the first restart
  Setting setting{}, second_setting{};  ///< of the deck, and with the second schedule
  SkeletonJob skeleton = SkeletonJob::none;
  std::int64_t head_tokens = 0;  ///< most tokens in a chunk of the head on the deck's mesh; 0: the program's choice
  std::int64_t most_ranks = 9;   ///< of meshes
};

/// The deck of the training that goes on with restart number `index`. It is not loaded.
deck::Config restarted(const RandomDeck& deck, std::size_t index);
/// The deck of its skeleton, without a stop. Throws base::Error(deck) if devices cannot run the deck.
deck::Config skeleton_of(const RandomDeck& deck);
/// The deck with the keys of its change, if it has one.
deck::Config changed(const RandomDeck& deck, deck::Config config);
/// The step from which on the keys of the change hold; nothing without one.
std::optional<std::int64_t> change_step(const RandomDeck& deck);
/// Whether each restart begins with a checkpoint that the training before it leaves.
bool restarts_fit(const RandomDeck& deck);
/// The settings, the chunks of the head, and the restarts in words, for those who run the deck again; "" if all is
/// usual.
std::string setting_text(const RandomDeck& deck);

Schedule schedule_of(const deck::Config& config);
/// The deck with these keys, but for keys of the group overlap that would change bits on its mesh: those stay.
deck::Config with_schedule(deck::Config config, const Schedule& schedule);

/// Draws one key of the deck. Generators run in the order of the table: later ones may read the keys of earlier ones.
struct Generator {
  std::string_view path;  ///< group.key
  void (*draw)(RandomDeck& deck, Draw& draw);
};
std::span<const Generator> generators();
Schedule draw_second(const deck::Config& config, Draw& draw);
/// `config` must be loaded. The deck with which the training goes on passes the checks.
/// Its first and last steps are not set.
Restart draw_restart(const deck::Config& config, std::int64_t most_ranks, Draw& draw);
/// Draws all that is no key of the deck: settings, chunks of the head, restarts, the change. The deck must be loaded.
void draw_crossings(RandomDeck& deck, std::uint64_t seed, std::int64_t number, std::int64_t attempt);

/// A key that is not drawn, and why.
struct NotDrawn {
  std::string_view path;
  std::string_view reason;
};
std::span<const NotDrawn> keys_not_drawn();

/// Counts of the decks that were drawn and of those that the checks rejected.
struct Acceptance {
  std::int64_t drawn = 0, rejected = 0;
  std::string last_error;
};

/// A deck as the generators draw it, before any check. Its data will lie in `folder`.
/// `most_ranks`: of its meshes.
RandomDeck drawn(std::uint64_t seed, std::int64_t number, std::int64_t attempt, const std::filesystem::path& folder,
                 std::int64_t most_ranks = 9);

/// Deck `number` of a seed, loaded (checked, with every default filled in). A deck that the checks reject is counted
/// and drawn once more.
RandomDeck draw_deck(std::uint64_t seed, std::int64_t number, const std::filesystem::path& folder,
                     Acceptance& acceptance, std::int64_t most_ranks = 9);

/// Writes the file that the deck reads, unless it exists, and sets data.path. Several ranks may call it at the same
/// time.
void provide_data(RandomDeck& deck, const std::filesystem::path& folder);

/// Reads and checks a config as the text of a deck, with mesh.shard = auto on as many ranks as its mesh has. With
/// data.batch_per_rank the text has no data.batch. Throws base::Error(deck) as deck::load_text does.
deck::Config loaded(const deck::Config& config);

/// The text of the deck, with only those keys that differ from their defaults.
std::string short_yaml(const deck::Config& config);

/// What model.init_file says of a file in this folder.
std::string weight_path(WeightFile kind, const std::string& folder);

/// Writes the random weights of a deck, which must be loaded, to a new folder, in the layouts of Hugging Face and
/// without loss. One rank calls it. Errors of the libraries that write.
void write_weights(WeightFile kind, const std::string& folder, const deck::Config& config);

}  // namespace shard8::test

// Generators for the keys of experts, in the order in which they run. All but the first change nothing of a deck
// without experts, but for mesh.expert, which becomes 1.

namespace shard8::test {

/// The number of which the sizes of FP8 products on a rank must be multiples (docs/fp8_reference.md); 1 without a
/// recipe.
std::int64_t multiple(const deck::Config& config);

void draw_experts(RandomDeck& deck, Draw& draw);
/// mesh.expert: any that divides the ranks of shard and tensor, and the experts.
void draw_expert(RandomDeck& deck, Draw& draw);
void draw_experts_per_token(RandomDeck& deck, Draw& draw);
void draw_experts_ffn(RandomDeck& deck, Draw& draw);
void draw_balance(RandomDeck& deck, Draw& draw);
void draw_routing(RandomDeck& deck, Draw& draw);
void draw_skew(RandomDeck& deck, Draw& draw);
void draw_capacity(RandomDeck& deck, Draw& draw);
void draw_dispatch(RandomDeck& deck, Draw& draw);
void draw_dense_layers(RandomDeck& deck, Draw& draw);

}  // namespace shard8::test
