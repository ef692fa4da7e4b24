// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "deck/fields.hpp"
#include "deck/load.hpp"
#include "deck/number.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::project {

namespace {

using deck::Diagnostics;
using deck::RawEntry;
using deck::RawGroup;
using When = Stack::When;

/// Sets a value of a structure from text. Returns what is expected in its place if the text is none.
using Set = std::string (*)(Structure& structure, const std::string& text);

struct StackKey {
  std::string_view name, values, standard, help;
  Set set;
};

template <auto member>
std::string set_number(Structure& s, const std::string& text, double low, double high) {
  const auto parsed = deck::parse_real(text);
  if (!parsed.value || *parsed.value < low || *parsed.value > high)
    return fmt::format("a number from {:g} to {:g}", low, high);
  using T = std::remove_reference_t<decltype(s.*member)>;
  s.*member = static_cast<T>(*parsed.value);
  return {};
}

template <auto member>
std::string set_copies(Structure& s, const std::string& text) {
  return set_number<member>(s, text, 0, 64);
}

template <auto member>
std::string set_elements(Structure& s, const std::string& text) {
  return set_number<member>(s, text, 0, 1e12);
}

template <auto member>
std::string set_choice(Structure& s, const std::string& text, std::string_view no, std::string_view yes) {
  if (text != no && text != yes) return fmt::format("{} or {}", no, yes);
  s.*member = text == yes;
  return {};
}

std::string set_recomputed(Structure& s, const std::string& text) {
  constexpr const char* kExpected =
      "none, or qkv, proj, fc1, fc2 and attention with blanks between, fc1=0.5 for a share, qkv=keys";
  s.recomputed = {};
  s.keys_recomputed = false;
  s.attention_recomputed = false;
  if (text == "none") return {};
  std::istringstream words(text);
  std::string word;
  bool any = false;
  while (words >> word) {
    any = true;
    const auto at = word.find('=');
    const std::string name = word.substr(0, at);
    double share = 1;
    if (word == "qkv=keys") {
      s.keys_recomputed = true;  // structure_of() knows their share
    } else if (at != std::string::npos) {
      const auto parsed = deck::parse_real(word.substr(at + 1));
      if (!parsed.value || *parsed.value <= 0 || *parsed.value > 1) return kExpected;
      share = *parsed.value;
    }
    if (name == "attention" && at == std::string::npos) {
      s.attention_recomputed = true;
      continue;
    }
    int linear = 0;
    while (linear < operation::kLinears && name_of(static_cast<operation::Linear>(linear)) != name) ++linear;
    if (linear == operation::kLinears) return kExpected;
    if (std::exchange(s.recomputed[static_cast<std::size_t>(linear)], share) > 0) return kExpected;  // named twice
  }
  return any ? std::string() : kExpected;
}

std::string set_gradients(Structure& s, const std::string& text) {
  if (text != "fp32" && text != "bf16") return "fp32 or bf16";
  s.gradients = text == "bf16" ? tensor::DType::bf16 : tensor::DType::fp32;
  return {};
}

using S = Structure;
using Text = const std::string&;

constexpr StackKey kKeys[] = {
    {"recomputed", "`none`, or words", "`none`",
     "with model.recompute: selective, what backward computes again besides norms and activations: qkv, proj, fc1, "
     "fc2, attention; fc1=0.5: that share of its columns; qkv=keys: the columns of the keys",
     set_recomputed},
    {"full_recompute", "`early_stop`, `whole`", "`early_stop`",
     "with model.recompute: full, whole: backward computes fc2 again, too, whose result nothing needs",
     [](S& s, Text t) { return set_choice<&S::whole_layer_recomputed>(s, t, "early_stop", "whole"); }},
    {"amax_sums", "0 to 64", "`0`",
     "sums of one amax over all ranks in each layer and micro-batch, on the compute stream",
     [](S& s, Text t) { return set_number<&S::amax_sums>(s, t, 0, 64); }},
    {"mlp", "`gated`, `plain`", "`gated`", "plain: llama without the gate of its MLP; any activation",
     [](S& s, Text t) { return set_choice<&S::plain_mlp>(s, t, "gated", "plain"); }},
    {"head", "`chunks`, `whole`", "`chunks`", "whole: head and loss of all tokens of a micro-batch at once",
     [](S& s, Text t) { return set_choice<&S::whole_head>(s, t, "chunks", "whole"); }},
    {"root", "`units`, `whole`", "`units`",
     "whole: embedding, final norm and head are one unit, gathered first and reduced last",
     [](S& s, Text t) { return set_choice<&S::whole_root>(s, t, "units", "whole"); }},
    {"first_gathers", "`ahead`, `exposed`", "`ahead`",
     "ahead: issued before the step before has ended; exposed: at the begin of the step",
     [](S& s, Text t) { return set_choice<&S::gathers_ahead>(s, t, "exposed", "ahead"); }},
    {"reductions", "`units`, `late`", "`units`", "late: gradients are reduced after backward",
     [](S& s, Text t) { return set_choice<&S::reduces_late>(s, t, "units", "late"); }},
    {"backward_gathers", "`overlapped`, `after_reductions`", "`overlapped`",
     "after_reductions: in backward a layer is gathered after the layer above is reduced, by one queue for both",
     [](S& s, Text t) { return set_choice<&S::gathers_after_reductions>(s, t, "overlapped", "after_reductions"); }},
    {"gather_calls", "1 to 64", "`1`", "calls, of equal size, in which a unit's weights are gathered",
     [](S& s, Text t) { return set_number<&S::gather_calls>(s, t, 1, 64); }},
    {"reduce_calls", "1 to 64", "`1`", "calls, of equal size, in which a unit's gradients are reduced",
     [](S& s, Text t) { return set_number<&S::reduce_calls>(s, t, 1, 64); }},
    {"reduce_call_bytes", "0 to 1e12", "`0`",
     "a layer's gradients are reduced in calls of which a rank keeps at most this many bytes, each started when its "
     "gradients exist; 0: reduce_calls",
     [](S& s, Text t) { return set_number<&S::reduce_call_bytes>(s, t, 0, 1e12); }},
    {"reduce_within", "0 to 1000 (layers)", "`0`",
     "in backward, reductions of each group of this many layers end before the next layer begins; 0: they need not",
     [](S& s, Text t) { return set_number<&S::reduce_within>(s, t, 0, 1000); }},
    {"bucket", "0 to 1e12 (elements)", "`0`", "units are reduced together until they have this many elements; 0: alone",
     set_elements<&S::bucket>},
    {"bucket_rank", "0 to 1e12 (elements)", "`0`", "the same, for each rank of the reduction; the larger counts",
     set_elements<&S::bucket_rank>},
    {"gradients", "`fp32`, `bf16`", "`fp32`", "what wgrad writes; precision.reduce is what is communicated",
     set_gradients},
    {"gather_copies", "0 to 64", "`0`", "bytes copied after a gather of weights, for each byte gathered",
     set_copies<&S::gather_copies>},
    {"reduce_copies", "0 to 64", "`0`", "bytes copied before a reduction of gradients, for each byte reduced",
     set_copies<&S::reduce_copies>},
    {"tensor_copies", "0 to 64", "`0`",
     "bytes copied around all-gathers and reduce-scatters of the tensor group that are not overlapped by parts",
     set_copies<&S::tensor_copies>},
    {"residual", "`product`, `kernel`", "`product`", "kernel: a kernel adds the residual to what the product wrote",
     [](S& s, Text t) { return set_choice<&S::residual_kernel>(s, t, "product", "kernel"); }},
    {"optimizer_bytes", "0 to 1000", "`0`",
     "bytes that the update of a parameter reads and writes; 0: as the deck says",
     [](S& s, Text t) { return set_number<&S::optimizer_bytes>(s, t, 0, 1000); }},
    {"moved_by", "`machine`, `kernels`", "`machine`",
     "kernels: they move the bytes of collectives in a node (NCCL), though the machine file says copies",
     [](S& s, Text t) { return set_choice<&S::moved_by_kernels>(s, t, "machine", "kernels"); }},
    {"host_issue", "0 to 100", "`1`", "factor of the host's time to issue an operation; 0: a graph",
     [](S& s, Text t) { return set_number<&S::host_issue>(s, t, 0, 100); }},
};

struct GroupName {
  std::string_view name;
  When when;
};
constexpr GroupName kDeckGroups[] = {{"deck", When::always},
                                     {"deck_bf16", When::bf16},
                                     {"deck_fp8", When::fp8},
                                     {"deck_tensor", When::tensor},
                                     {"deck_fp8_tensor", When::fp8_tensor},
                                     {"deck_overlap", When::overlap}};
constexpr GroupName kStructureGroups[] = {{"structure", When::always},
                                          {"structure_bf16", When::bf16},
                                          {"structure_fp8", When::fp8},
                                          {"structure_tensor", When::tensor},
                                          {"structure_fp8_tensor", When::fp8_tensor},
                                          {"structure_overlap", When::overlap}};
constexpr std::string_view kStackKeys[] = {"format", "name", "release", "rows", "replicas", "note"};

/// Reads groups into a Stack and collects errors.
class Reader {
 public:
  explicit Reader(Diagnostics& errors) : errors_(errors) {}

  void read(const deck::RawDeck& file) {
    for (const RawGroup& group : file.groups) read(group);
    if (!file.complete) return;
    const bool there =
        std::any_of(file.groups.begin(), file.groups.end(), [](const RawGroup& g) { return g.name.text == "stack"; });
    if (!there) errors_.error({}, "group 'stack' is missing", "it has the keys format, name, release and rows");
    if (there && !format_) errors_.error(stack_, "stack.format is missing", fmt::format("expected {}", kStackFormat));
    if (there && out.name.empty()) errors_.error(stack_, "stack.name is missing", "expected a text");
  }

  Stack out;

 private:
  template <class Names, class NameOf>
  void unknown(const deck::Token& name, const std::string& what, const Names& names, const NameOf& name_of,
               std::string_view all) {
    std::vector<std::string_view> list;
    for (const auto& n : names) list.push_back(name_of(n));
    const auto near = deck::nearest(name.text, list);
    errors_.error(name.where, what,
                  near.empty() ? fmt::format("{} are {}", all, deck::list_of(list, "and"))
                               : fmt::format("did you mean '{}'?", near));
  }

  void read(const RawGroup& group) {
    const std::string& name = group.name.text;
    if (group.has_value)
      return errors_.error(group.name.where, fmt::format("group '{}' has a value", name),
                           "its keys go on lines of their own below it, indented");
    for (const RawEntry& entry : group.entries)
      if (entry.state == RawEntry::State::missing)
        errors_.error(entry.key.where, fmt::format("{}.{} has no value", name, entry.key.text), "write one");
    for (const GroupName& g : kDeckGroups)
      if (g.name == name) return each(group, [&](const RawEntry& e) { deck(g.when, e); });
    for (const GroupName& g : kStructureGroups)
      if (g.name == name) return each(group, [&](const RawEntry& e) { structure(g, e); });
    if (name == "kernels") return each(group, [&](const RawEntry& e) { kernel(e); });
    if (name == "stack") {
      stack_ = group.name.where;
      return each(group, [&](const RawEntry& e) { stack(e); });
    }
    std::vector<std::string_view> names{"stack", "kernels"};
    for (const GroupName& g : kDeckGroups) names.push_back(g.name);
    for (const GroupName& g : kStructureGroups) names.push_back(g.name);
    unknown(
        group.name, fmt::format("unknown group '{}'", name), names, [](auto n) { return n; }, "groups");
  }

  template <class Take>
  static void each(const RawGroup& group, const Take& take) {
    for (const RawEntry& entry : group.entries)
      if (entry.state == RawEntry::State::given) take(entry);
  }

  void wrong(const std::string& path, const RawEntry& entry, const std::string& expected) {
    errors_.error(entry.value.where, fmt::format("{} = {} is not allowed", path, entry.value.text),
                  "expected " + expected);
  }

  void stack(const RawEntry& e) {
    const std::string &key = e.key.text, &value = e.value.text;
    if (key == "format") {
      const auto parsed = deck::parse_integer(value);
      format_ = true;
      if (!parsed.value || *parsed.value != kStackFormat) wrong("stack.format", e, std::to_string(kStackFormat));
    } else if (key == "name") {
      out.name = value;
    } else if (key == "release") {
      out.release = value;
    } else if (key == "rows") {
      out.rows = value;
    } else if (key == "note") {
      out.note = value;
    } else if (key == "replicas") {
      if (value != "replicate" && value != "shard") return wrong("stack.replicas", e, "replicate or shard");
      out.replicas_are_shards = value == "shard";
    } else {
      unknown(
          e.key, fmt::format("unknown key '{}' in group 'stack'", key), kStackKeys, [](auto n) { return n; },
          "its keys");
    }
  }

  /// A deck's key, group.key. The value is checked with the deck.
  void deck(When when, const RawEntry& e) {
    const std::string& path = e.key.text;
    const auto dot = path.find('.');
    const deck::Group* const group = dot == std::string::npos ? nullptr : deck::find_group(path.substr(0, dot));
    if (group == nullptr || deck::find_field(*group, path.substr(dot + 1)) == nullptr) {
      std::vector<std::string> paths;
      for (const deck::Group& g : deck::all_groups())
        for (const deck::Field& f : g.fields) paths.push_back(fmt::format("{}.{}", g.name, f.key));
      const std::vector<std::string_view> names(paths.begin(), paths.end());
      const auto near = deck::nearest(path, names);
      return errors_.error(
          e.key.where, fmt::format("'{}' is no key of a deck", path),
          near.empty() ? "expected group.key, as shard8 deck lists them" : fmt::format("did you mean '{}'?", near));
    }
    out.deck.push_back({when, fmt::format("{}={}", path, e.value.text)});
  }

  void structure(const GroupName& group, const RawEntry& e) {
    for (const StackKey& key : kKeys) {
      if (key.name != e.key.text) continue;
      Structure ignored;
      const std::string expected = key.set(ignored, e.value.text);
      if (!expected.empty()) return wrong(fmt::format("{}.{}", group.name, key.name), e, expected);
      return out.settings.push_back({group.when, e.key.text, e.value.text});
    }
    unknown(
        e.key, fmt::format("unknown key '{}' in group '{}'", e.key.text, group.name), kKeys,
        [](const StackKey& k) { return k.name; }, "its keys");
  }

  void kernel(const RawEntry& e) {
    const auto parsed = deck::parse_real(e.value.text);
    if (!parsed.value || *parsed.value < 0 || *parsed.value > 100)
      return wrong("kernels." + e.key.text, e, "a factor from 0 to 100");
    out.kernels.push_back({e.key.text, *parsed.value});
  }

  Diagnostics& errors_;
  bool format_ = false;
  deck::Span stack_;
};

bool counts(When when, const deck::Config& config) {
  switch (when) {
    case When::bf16:
      return !config.fp8.on();
    case When::fp8:
      return config.fp8.on();
    case When::tensor:
      return config.mesh.tensor > 1;
    case When::fp8_tensor:
      return config.fp8.on() && config.mesh.tensor > 1;
    case When::overlap:
      return config.mesh.tensor > 1 && config.overlap.enable;
    default:
      return true;
  }
}

constexpr When kInOrder[] = {When::always, When::bf16, When::fp8, When::tensor, When::fp8_tensor, When::overlap};

}  // namespace

Stack read_stack(const std::string& path) { return read_stack_text(deck::read_text_file(path, "stack file"), path); }

Stack read_stack_text(std::string_view text, const std::string& name) {
  Diagnostics errors;
  const int source = errors.add_source({name, deck::split_lines(text)});
  const deck::RawDeck file = deck::read_yaml(errors, source, std::string(text));
  Reader reader(errors);
  reader.read(file);
  errors.throw_if_any();
  reader.out.path = name;
  return std::move(reader.out);
}

std::string stack_keys_table() {
  std::string table = "key | value | default | meaning\n---|---|---|---\n";
  for (const StackKey& key : kKeys)
    table += fmt::format("`{}` | {} | {} | {}\n", key.name, key.values, key.standard, key.help);
  return table;
}

std::vector<std::string> overrides(const Stack& stack, const deck::Config& config) {
  std::vector<std::string> texts;
  for (const When when : kInOrder)
    for (const Stack::Override& o : stack.deck)
      if (o.when == when && counts(when, config)) texts.push_back(o.text);
  return texts;
}

Structure structure_of(const Stack& stack, const deck::Config& config) {
  Structure structure;
  structure.kernels = stack.kernels;
  for (const When when : kInOrder) {
    if (!counts(when, config)) continue;
    for (const Stack::Setting& setting : stack.settings)
      for (const StackKey& key : kKeys)
        if (setting.when == when && key.name == setting.key) key.set(structure, setting.value);
  }
  const double keys = static_cast<double>(config.model.kv_heads);
  if (structure.keys_recomputed)
    structure.recomputed[static_cast<std::size_t>(operation::Linear::qkv)] =
        keys / (static_cast<double>(config.model.heads) + 2 * keys);
  return structure;
}

std::vector<int> record_step(const Structure& structure, const train::Setup& setup, const train::StepOfRun& step,
                             const operation::Recorder::Sink& sink) {
  const operation::Operations all = transformed(structure, setup, train::record_step(setup, step));
  for (const operation::Operation& o : all.list) sink(o);
  return all.ahead;
}

}  // namespace shard8::project
