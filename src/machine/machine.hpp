// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention.hpp"
#include "operation/operation.hpp"
#include "profile/collective_log.hpp"
#include "tensor/dtype.hpp"

namespace shard8::machine {

/// The version of the format of machine files.
inline constexpr std::int64_t kFormat = 1;

/// Where a figure of a machine file comes from.
struct Source {
  /// datasheet: published by whoever sells or runs the machine; chosen: somebody's estimate.
  enum class Kind : std::uint8_t { measured, imported, datasheet, chosen };
  std::string name;  ///< as entries of the file refer to it
  Kind kind = Kind::chosen;
  std::string text;  ///< command, card and date, or file, or address
};
std::string_view name_of(Source::Kind kind);

/// What an entry of one of the tables below has besides its key: the time of one call, and where it comes from.
struct Timed {
  double seconds = 0;
  int source = 0;  ///< index in Machine::sources
  int line = 0;    ///< of the file; 0: made by calibrate
};

/// A matrix product, counted as operation::Product does. A bias and a residual are not told apart.
struct ProductTime : Timed {
  operation::Product product{};
};
struct AttentionTime : Timed {
  operation::Attention attention{};
};
/// A kernel bound by memory bandwidth, by the bytes that it reads and writes together. `name` "any" stands for every
/// kernel that has no entry of its own name.
struct KernelTime : Timed {
  std::string name;
  std::uint64_t bytes = 0;
};
/// A collective. `bytes` are those of the whole (profile::CollectiveKey). Inside a node `nodes` is 1. `ranks` is the
/// number of ranks on each node.
struct CollectiveTime : Timed {
  profile::Collective op{};
  int nodes = 1, ranks = 1;
  std::uint64_t bytes = 0;
};

/// A number of a machine file that stands alone, and where it comes from.
struct Figure {
  double value = 0;
  int source = -1;  ///< index in Machine::sources; -1: the file does not give it
  int line = 0;
  bool given() const { return source >= 0; }
};

/// Kinds of operations that slow each other down while they run at once. A collective counts as `copies` if copy
/// engines move its bytes, as `sums` if they do and kernels sum what they brought, as `collective` if kernels do all.
enum class Load : std::uint8_t { product, attention, kernel, collective, copies, sums };
inline constexpr int kLoads = 6;
std::string_view name_of(Load load);

/// A cluster of equal nodes, as a machine file describes it (docs/projection.md). Times are in seconds, sizes in bytes,
/// rates a second. Group and key of each member are in its comment.
struct Machine {
  std::string path;  ///< of the file, for messages

  std::string name;     ///< machine.name
  bool device = false;  ///< machine.kind: cuda, else host
  std::string note;     ///< machine.note
  std::vector<Source> sources;

  Figure node_devices;  ///< node.devices: devices of a node, or ranks if the machine computes on hosts
  Figure node_cores;    ///< node.cores of all processors of a node

  std::string device_name;                ///< device.name
  Figure peak_fp32, peak_bf16, peak_fp8;  ///< device.peak_*: FLOP/s of dense products
  /// The peak of products whose operands have elements of 1, 2 or 4 bytes.
  const Figure& peak_of(std::size_t bytes) const { return bytes == 1 ? peak_fp8 : bytes == 2 ? peak_bf16 : peak_fp32; }
  Figure memory;     ///< device.memory: bytes
  Figure bandwidth;  ///< device.bandwidth of its memory: bytes/s
  /// The factor by which a what-if changes `bandwidth` for kernels without rows. Products keep their times.
  double bandwidth_of_kernels = 1;
  Figure watts, watts_idle;  ///< device.watts: its limit; device.watts_idle

  std::vector<ProductTime> products;        ///< group products
  std::vector<AttentionTime> attention;     ///< group attention
  std::vector<KernelTime> kernels;          ///< group kernels
  std::vector<CollectiveTime> collectives;  ///< groups node_collectives and network_collectives

  /// host.issue_product, ...: time in which the host issues one operation to a device. issue_step: what it takes once a
  /// step besides.
  Figure issue_product, issue_attention, issue_kernel, issue_collective, issue_step;

  Figure host_bandwidth;  ///< host.bandwidth: bytes/s that a rank copies between its device and the host

  bool copies_in_node = false;  ///< node.moved_by: copies, else kernels: what moves the bytes of collectives in a node
  bool moved_by_given = false;  ///< whether the file gives node.moved_by
  Figure link_bandwidth;        ///< node.bandwidth: bytes/s that a rank sends to others of its node
  Figure link_latency;          ///< node.latency: seconds of a collective in a node that moves nothing

  Figure rails;             ///< network.rails: ports of a node
  Figure rail_bandwidth;    ///< network.bandwidth of a port and direction: bytes/s that collectives reach at best
  Figure latency;           ///< network.latency: seconds of a collective over nodes that moves nothing
  Figure latency_rank;      ///< network.latency_rank: seconds that each further rank adds to it in a ring
  Figure oversubscription;  ///< network.oversubscription: the factor by which the top of the network has less than its
                            ///< nodes

  /// overlap.A_by_B: the factor by which A takes longer while B runs; 1 if it is not given.
  std::array<std::array<Figure, kLoads>, kLoads> slowed{};
  double slowed_by(Load slow, Load by) const {
    const Figure& f = slowed[static_cast<std::size_t>(slow)][static_cast<std::size_t>(by)];
    return f.given() ? f.value : 1.0;
  }

  /// spread.ranks: standard deviation over ranks of the mean time of a rank's computation; spread.steps: of one rank's
  /// computation from step to step. Both are relative.
  Figure spread_ranks, spread_steps;
  /// spread.calls: standard deviation, in seconds, of when ranks of a group come to a collective that none of them
  /// overlaps, after each rank's mean over the steps is taken off for each call. Whoever comes first waits.
  Figure spread_calls;

  Figure failures;         ///< reliability.failures: failures of a device in an hour
  Figure restart_s;        ///< reliability.restart: seconds from a failure to the first step, without reading
  Figure write_bandwidth;  ///< storage.write: bytes/s of all nodes together
  Figure read_bandwidth;   ///< storage.read

  /// What a collective over so many nodes counts as.
  Load load_of(profile::Collective op, int nodes) const {
    if (nodes > 1 || !copies_in_node || op == profile::Collective::all_reduce) return Load::collective;
    return op == profile::Collective::reduce_scatter ? Load::sums : Load::copies;
  }

  /// The index of the source of this kind, name and text. A source is added if there is none: where another source has
  /// the name, as NAME_2, NAME_3, ...
  int add_source(Source::Kind kind, const std::string& source_name, const std::string& text);
};

/// Reads and checks a machine file, YAML of two levels (docs/projection.md). Throws base::Error(deck) with all errors
/// at once, each with its place: what no machine file has, values of the wrong type or out of bounds, entries without a
/// source, the same row twice, and entries that contradict each other. The rows of tables are sorted: sort_rows().
Machine read(const std::string& path);

/// As read(), for a file whose text was already read. `name` is its name in messages, and Machine::path.
Machine read_text(std::string_view text, const std::string& name);

/// The text of a machine's file, which read_text() reads back to the same machine but for `path` and lines: the same
/// numbers, and rows as sort_rows() leaves them. Groups without entries are left out. A group's `source` is the one of
/// most of its entries. Throws Error(failed) for a machine without a name or sources, for an entry that is not of its
/// sources, and for texts that a line cannot hold. Contradictions are left to the reader.
std::string write(const Machine& machine);

/// Sorts the tables by what their rows are: by kind and formats, name, or nodes, operation and ranks, then by sizes.
void sort_rows(Machine& machine);

/// All groups, keys and forms of rows: as "yaml", a file to be filled in with comments, which read_text() takes as it
/// is, or as "markdown", tables for docs/projection.md. Throws Error(deck) for another format.
std::string print_table(std::string_view format);

/// What a machine file gives, a line for each group that has entries: how many, and their sources.
std::string summary(const Machine& machine);

}  // namespace shard8::machine
