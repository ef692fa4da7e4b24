// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/fields.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "deck/number.hpp"

namespace shard8::machine {
namespace {

using deck::above;
using deck::Bounds;
using deck::from_to;

constexpr Unit kNone{"", 0}, kTera{"TFLOP/s", 12}, kGiga{"GB/s", 9}, kMicro{"us", -6}, kSeconds{"s", 0}, kWatts{"W", 0},
    kHour{"1/h", 0}, kSize{"bytes", 0, true};

/// Above zero and below what no machine has: a slip of units is found.
constexpr Bounds up_to(double high) { return {.low = 0, .high = high, .open_low = true}; }

Field number(const char* key, Figure Machine::*member, Unit unit, Bounds bounds, std::string_view example,
             const char* help, bool integer = false) {
  return {key, Number{.member = member, .unit = unit, .bounds = bounds, .integer = integer}, example, help};
}

std::vector<Field> machine_fields() {
  return {
      {"format", Version{}, "1", "version of the format of this file", true},
      {"name", Text{&Machine::name}, "cluster", "as reports call the machine", true},
      {"kind", Either{&Machine::device, {"host", "cuda"}}, "cuda", "what computes", true},
      {"note", Text{&Machine::note}, "''", "for people"},
  };
}

std::vector<Field> node_fields() {
  using M = Machine;
  return {
      number("devices", &M::node_devices, kNone, from_to(1, 65536), "8",
             "devices of a node; on hosts the ranks that one is used with", true),
      number("cores", &M::node_cores, kNone, from_to(1, 65536), "112", "of all processors of a node", true),
      {"moved_by", Either{&M::copies_in_node, {"kernels", "copies"}, &M::moved_by_given}, "kernels",
       "what moves the bytes of collectives in a node: kernels, or copy engines"},
      number("bandwidth", &M::link_bandwidth, kGiga, up_to(1e5), "380", "that a rank sends to others of its node"),
      number("latency", &M::link_latency, kMicro, up_to(1e6), "9", "of a collective in a node that moves nothing"),
  };
}

std::vector<Field> device_fields() {
  using M = Machine;
  return {
      {"name", Text{&M::device_name}, "NVIDIA H100 80GB HBM3", "of the card or processor"},
      number("peak_bf16", &M::peak_bf16, kTera, up_to(1e6), "989.4", "dense products of bf16"),
      number("peak_fp8", &M::peak_fp8, kTera, up_to(1e6), "1978.9", "dense products of e4m3 and e5m2"),
      number("peak_fp32", &M::peak_fp32, kTera, up_to(1e6), "66.9", "dense products of fp32"),
      number("memory", &M::memory, kSize, from_to(1048576, 1e15), "80GiB", "its memory"),
      number("bandwidth", &M::bandwidth, kGiga, up_to(1e6), "3350", "of its memory"),
      number("watts", &M::watts, kWatts, up_to(1e5), "700", "its limit of power"),
      number("watts_idle", &M::watts_idle, kWatts, up_to(1e5), "70", "what it takes without work"),
  };
}

std::vector<Field> host_fields() {
  using M = Machine;
  const Bounds bounds = from_to(0, 1e6);
  return {
      number("issue_product", &M::issue_product, kMicro, bounds, "6", "a matrix product"),
      number("issue_attention", &M::issue_attention, kMicro, bounds, "20", "attention of one layer and direction"),
      number("issue_kernel", &M::issue_kernel, kMicro, bounds, "4", "another kernel"),
      number("issue_collective", &M::issue_collective, kMicro, bounds, "12", "a collective"),
      number("issue_step", &M::issue_step, kMicro, from_to(0, 1e8), "300", "what a step takes once besides"),
      number("bandwidth", &M::host_bandwidth, kGiga, up_to(1e5), "50", "that a rank copies between device and host"),
  };
}

std::vector<Field> network_fields() {
  using M = Machine;
  return {
      number("rails", &M::rails, kNone, from_to(1, 1024), "8", "ports of a node", true),
      number("bandwidth", &M::rail_bandwidth, kGiga, up_to(1e5), "45",
             "that collectives reach at best on a port and direction"),
      number("latency", &M::latency, kMicro, up_to(1e6), "20", "of a collective over nodes that moves nothing"),
      number("latency_rank", &M::latency_rank, kMicro, from_to(0, 1e6), "2", "that each further rank of a ring adds"),
      number("oversubscription", &M::oversubscription, kNone, from_to(1, 1000), "1",
             "factor by which the top of the network has less bandwidth than its nodes"),
  };
}

std::vector<Field> overlap_fields() {
  std::vector<Field> fields;
  for (int slow = 0; slow < kLoads; ++slow)
    for (int by = 0; by < kLoads; ++by) {
      const Number number{.slow = Load(slow), .by = Load(by), .bounds = from_to(0.5, 10)};
      const std::string_view a = name_of(number.slow), b = name_of(number.by);
      fields.push_back({fmt::format("{}_by_{}", a, b), number, "1",
                        fmt::format("factor by which {} {} longer while {} {}", a, a == "copies" ? "take" : "takes",
                                    slow == by ? "another one" : b, b == "copies" && slow != by ? "run" : "runs")});
    }
  return fields;
}

std::vector<Field> spread_fields() {
  using M = Machine;
  return {
      number("ranks", &M::spread_ranks, kNone, from_to(0, 1), "0.01",
             "relative standard deviation of the mean time of computation over ranks"),
      number("steps", &M::spread_steps, kNone, from_to(0, 1), "0.005",
             "relative standard deviation of a rank's computation from step to step"),
      number("calls", &M::spread_calls, kMicro, from_to(0, 1e6), "15",
             "standard deviation of when ranks come to a collective that nothing hides"),
  };
}

std::vector<Field> reliability_fields() {
  using M = Machine;
  return {
      number("failures", &M::failures, kHour, from_to(0, 1), "2e-5", "failures of one device in an hour"),
      number("restart", &M::restart_s, kSeconds, from_to(0, 1e6), "300",
             "from a failure to the first step, without reading the checkpoint"),
  };
}

std::vector<Field> storage_fields() {
  using M = Machine;
  return {
      number("write", &M::write_bandwidth, kGiga, up_to(1e6), "50", "of all nodes together"),
      number("read", &M::read_bandwidth, kGiga, up_to(1e6), "50", "of all nodes together"),
  };
}

std::vector<Group> make_groups() {
  return {
      {.name = "machine",
       .help = "What the file describes: a cluster of equal nodes.",
       .fields = machine_fields(),
       .sourced = false,
       .required = true},
      {.name = "sources",
       .help = "Where figures come from. Entries refer to the name: by the key source of their group, or at their end, "
               "as in 380 @here. Kinds: measured (command, card, date), imported (a file), datasheet (an address), "
               "chosen (an estimate, and whose).",
       .table = Table::sources,
       .form = "NAME",
       .value = "KIND: text, in quotes",
       .examples = {"here: 'measured: shard8 calibrate DECK; NVIDIA H100 80GB HBM3; 2026-11-26'",
                    "vendor: 'datasheet: https://...'"},
       .sourced = false,
       .required = true},
      {"node", "One node, and its collectives where the table below has none.", node_fields()},
      {"device", "What a rank computes on.", device_fields()},
      {.name = "products",
       .help =
           "us of a matrix product inside a step. KIND is fprop, dgrad or wgrad; LEFT, RIGHT and OUT are dtypes, of "
           "operands with their scaling, and ^T if they are stored transposed; OUT+ adds to what is there. Of experts "
           "M, or K of wgrad, counts the tokens of all G groups.",
       .table = Table::products,
       .form = "KIND LEFT RIGHT OUT MxNxK [groups=G]",
       .examples = {"fprop bf16 bf16 bf16 8192x6144x4096: 540.1",
                    "wgrad e4m3/tensor^T e5m2/tensor fp32+ 4096x6144x8192: 301"}},
      {.name = "attention",
       .help = "us of attention of one layer. any-order: sums of backward may have any order.",
       .table = Table::attention,
       .form = "forward|backward DTYPE BATCHxSEQxHEADSxKV_HEADSxHEAD_DIM [any-order]",
       .examples = {"forward bf16 1x8192x32x8x128: 700"}},
      {.name = "kernels",
       .help = "us of kernels bound by memory, by the bytes that they read and write. The name any stands for kernels "
               "without rows of their own.",
       .table = Table::kernels,
       .form = "NAME BYTES",
       .examples = {"rmsnorm_forward 134217728: 55"}},
      {"host", "Time in which the host issues one of them to a device.", host_fields()},
      {.name = "node_collectives",
       .help = "us of collectives of ranks of one node. Bytes are those of the whole, as nccl-tests counts them.",
       .table = Table::node_collectives,
       .form = "OP RANKS BYTES",
       .examples = {"all_gather 2 1048576: 14"}},
      {"network", "Between nodes, where the table below has no row.", network_fields()},
      {.name = "network_collectives",
       .help = "us of collectives over nodes, with so many ranks on each.",
       .table = Table::network_collectives,
       .form = "OP NODESxRANKS BYTES",
       .examples = {"all_gather 2x8 1073741824: 2600"}},
      {.name = "overlap",
       .help = "The factor by which A takes longer while B runs, 1 where nothing is given. A and B are product, "
               "attention, kernel, collective (moved by kernels), copies (collectives moved by copy engines) or sums "
               "(reduce-scatters that copy engines move and kernels sum).",
       .fields = overlap_fields(),
       .form = "A_by_B",
       .value = "factor",
       .examples = {"product_by_collective: 1.08"}},
      {"spread", "How much ranks and steps differ.", spread_fields()},
      {"reliability", "Failures, for goodput.", reliability_fields()},
      {"storage", "Where checkpoints go.", storage_fields()},
  };
}

std::pair<const Group*, const Field*> field_of(const Machine& machine, const Figure& figure) {
  for (const Group& group : all_groups())
    for (const Field& field : group.fields)
      if (const auto* number = std::get_if<Number>(&field.value); number != nullptr && &number->of(machine) == &figure)
        return {&group, &field};
  base::fail(base::ExitCode::failed, "a figure of '{}' has no key", machine.path);
}

}  // namespace

Figure& Number::of(Machine& machine) const {
  if (member != nullptr) return machine.*member;
  return machine.slowed[static_cast<std::size_t>(slow)][static_cast<std::size_t>(by)];
}

const Figure& Number::of(const Machine& machine) const {
  if (member != nullptr) return machine.*member;
  return machine.slowed[static_cast<std::size_t>(slow)][static_cast<std::size_t>(by)];
}

const std::vector<Group>& all_groups() {
  static const std::vector<Group> groups = make_groups();
  return groups;
}

const Group* find_group(std::string_view name) {
  for (const Group& group : all_groups())
    if (group.name == name) return &group;
  return nullptr;
}

const Group& group_of(Table table) {
  for (const Group& group : all_groups())
    if (group.table == table) return group;
  base::fail(base::ExitCode::failed, "no group has the table {}", static_cast<int>(table));
}

std::string expected(const Field& field) {
  if (std::holds_alternative<Text>(field.value)) return field.required ? "a text, not empty" : "a text";
  if (std::holds_alternative<Version>(field.value)) return fmt::format("{}", kFormat);
  if (const auto* either = std::get_if<Either>(&field.value)) return deck::list_of(either->names);
  const auto& number = std::get<Number>(field.value);
  if (number.unit.size)
    return fmt::format("a size from {} to {}, as in {}",
                       deck::format_size(static_cast<std::uint64_t>(number.bounds.low)),
                       deck::format_size(static_cast<std::uint64_t>(number.bounds.high)), field.example);
  return fmt::format("{}{}{}{}", number.integer ? "an integer" : "a real number", deck::text_of(number.bounds),
                     number.unit.name.empty() ? "" : " in ", number.unit.name);
}

std::string key_of(const Machine& machine, const Figure& figure) {
  const auto [group, field] = field_of(machine, figure);
  return fmt::format("{}.{}", group->name, field->key);
}

std::string value_text(const Machine& machine, const Figure& figure, double value) {
  const Unit& unit = std::get<Number>(field_of(machine, figure).second->value).unit;
  return fmt::format("{}{}{}", deck::format_scaled(value, unit.power), unit.name.empty() ? "" : " ", unit.name);
}

std::string value_text(const Field& field, const Machine& machine) {
  if (const auto* text = std::get_if<Text>(&field.value)) return machine.*text->member;
  if (std::holds_alternative<Version>(field.value)) return fmt::format("{}", kFormat);
  if (const auto* either = std::get_if<Either>(&field.value)) {
    if (either->given != nullptr && !(machine.*either->given)) return {};
    return std::string(either->names[machine.*either->member ? 1 : 0]);
  }
  const auto& number = std::get<Number>(field.value);
  const Figure& figure = number.of(machine);
  if (!figure.given()) return {};
  if (number.unit.size) return deck::format_size(static_cast<std::uint64_t>(figure.value));
  return deck::format_scaled(figure.value, number.unit.power);
}

}  // namespace shard8::machine
