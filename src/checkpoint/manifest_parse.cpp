// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "io/digest.hpp"

namespace shard8::checkpoint {

namespace {

using nlohmann::json;

constexpr int kDeepest = 8;                                    // chosen; a manifest has four levels
constexpr std::uint64_t kMostInteger = 2147483647;             // as in decks: steps, extents of the mesh
constexpr std::uint64_t kMostSigned = 9223372036854775807ULL;  // 2^63 - 1: bytes and elements
constexpr std::uint64_t kMostSequences = kMostSigned / 2;      // as many may follow: steps times the largest batch
constexpr std::size_t kLongestName = 4096;                     // chosen
constexpr std::size_t kHexDigits = 32;

constexpr std::string_view kDigestKey = "\"digest\": \"";
constexpr std::string_view kEnd = "\"\n}\n";

bool is_hex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<tensor::DType> dtype_from(std::string_view name) {
  using enum tensor::DType;
  for (const tensor::DType dtype : {fp32, bf16, i32, u8, e4m3, e5m2, e8m0, i16}) {
    if (tensor::name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(const std::string& path) : path_(path) {}

  Manifest parse(std::string_view text) const {
    check_digest(text);
    const json top = read_json(text);
    const auto format = top.is_object() ? top.find("format") : top.end();
    if (!top.is_object() || format == top.end()) malformed("it is no JSON object with an integer \"format\"");
    const auto version = integer(*format, "format", 1, kMostSigned);
    if (version > kManifestFormat) {
      base::fail(
          base::ExitCode::checkpoint,
          "'{}': format version {} is newer than {}, the newest that this program reads; restart with the program "
          "that wrote it or a newer one",
          path_, version, kManifestFormat);
    }
    return manifest_of(top, static_cast<std::int64_t>(version));
  }

 private:
  template <class... Args>
  [[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) const {
    base::fail(base::ExitCode::checkpoint, "'{}': {}; restart from another checkpoint, or copy this one again", path_,
               fmt::format(format, std::forward<Args>(args)...));
  }

  template <class... Args>
  [[noreturn]] void malformed(fmt::format_string<Args...> format, Args&&... args) const {
    damaged("not a manifest: {}", fmt::format(format, std::forward<Args>(args)...));
  }

  void check_digest(std::string_view text) const {
    const std::size_t tail = kDigestKey.size() + kHexDigits + kEnd.size();
    const auto at = text.size() < tail ? 0 : text.size() - tail;
    const std::string_view key = text.substr(at, kDigestKey.size());
    if (text.size() < tail || key != kDigestKey || !text.ends_with(kEnd)) {
      damaged("does not end with its digest: it was cut short or changed");
    }
    if (text.substr(at + kDigestKey.size(), kHexDigits) != io::digest128(text.substr(0, at))) {
      damaged("its {} bytes do not match the digest at its end: it was changed or damaged", text.size());
    }
  }

  json read_json(std::string_view text) const {
    using Event = json::parse_event_t;
    std::array<std::set<std::string>, kDeepest + 1> seen;  // the keys of the object that is open at each depth
    const auto watch = [&](int depth, Event event, const json& value) {
      if (depth > kDeepest) malformed("it is nested more than {} deep", kDeepest);
      const auto d = static_cast<std::size_t>(depth);
      if (event == Event::object_start) seen[d].clear();
      if (event == Event::key && !seen[d - 1].insert(value.get_ref<const std::string&>()).second) {
        malformed("key '{}' is there twice", base::quotable(value.get_ref<const std::string&>()));
      }
      return true;
    };
    try {
      return json::parse(text, watch);
    } catch (const json::exception& error) {
      malformed("{}", base::text_of_json(error));
    }
  }

  std::uint64_t number(const json& value, std::string_view where, std::uint64_t low, std::uint64_t high) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < low || value.get<std::uint64_t>() > high) {
      malformed("'{}' is {}; needed is an integer from {} to {}", where, base::quotable(shown(value)), low, high);
    }
    return value.get<std::uint64_t>();
  }

  std::int64_t integer(const json& value, std::string_view where, std::uint64_t low, std::uint64_t high) const {
    return static_cast<std::int64_t>(number(value, where, low, high));
  }

  const std::string& text(const json& value, std::string_view where) const {
    if (!value.is_string()) malformed("'{}' is {}; needed is a text", where, base::quotable(shown(value)));
    return value.get_ref<const std::string&>();
  }

  /// A text that is not empty, not longer than a name may be, and without control characters.
  const std::string& name(const json& value, std::string_view where) const {
    const std::string& found = text(value, where);
    if (found.empty() || found.size() > kLongestName || base::printable(found) != found) {
      malformed("'{}' is '{}'; needed is a text of 1 to {} bytes without control characters", where,
                base::quotable(found), kLongestName);
    }
    return found;
  }

  const std::string& hex(const json& value, std::string_view where) const {
    const std::string& found = text(value, where);
    if (!is_hex(found) || found.size() > kHexDigits) {
      malformed("'{}' is '{}'; needed are 1 to {} lower-case hex digits", where, base::quotable(found), kHexDigits);
    }
    return found;
  }

  /// The values of an object that has exactly these keys.
  template <std::size_t n>
  std::array<const json*, n> values(const json& object, std::string_view where, const char* const (&keys)[n]) const {
    if (!object.is_object()) malformed("'{}' is {}; needed is an object", where, base::quotable(shown(object)));
    std::array<const json*, n> found = {};
    for (std::size_t i = 0; i < n; ++i) {
      const auto at = object.find(keys[i]);
      if (at == object.end()) malformed("'{}' has no '{}'", where, keys[i]);
      found[i] = &*at;
    }
    for (const auto& [key, value] : object.items()) {
      if (std::find(std::begin(keys), std::end(keys), key) == std::end(keys)) {
        malformed("'{}' has an unknown key '{}'", where, base::quotable(key));
      }
    }
    return found;
  }

  template <class Item>
  std::vector<Item> list(const json& value, const char* where, Item (Parser::*one)(const json&) const) const {
    if (!value.is_array()) malformed("'{}' is {}; needed is a list", where, base::quotable(shown(value)));
    std::vector<Item> items;
    items.reserve(value.size());
    for (const json& item : value) items.push_back((this->*one)(item));
    return items;
  }

  ManifestKey key_of(const json& value) const {
    const auto [key, text_of_value, origin] = values(value, "deck", {"key", "value", "origin"});
    return {name(*key, "deck.key"), text(*text_of_value, "deck.value"), name(*origin, "deck.origin")};
  }

  ManifestTensor tensor_of(const json& value) const {
    const auto [called, content, dtype, shape] = values(value, "tensors", {"name", "content", "dtype", "shape"});
    ManifestTensor tensor;
    tensor.name = name(*called, "tensors.name");
    tensor.content = name(*content, "tensors.content");
    const auto type = dtype_from(text(*dtype, "tensors.dtype"));
    if (!type) malformed("tensor '{}': unknown dtype '{}'", tensor.name, base::quotable(text(*dtype, "")));
    tensor.dtype = *type;
    if (!shape->is_array() || shape->empty() || shape->size() > 2) {
      malformed("tensor '{}': its shape is {}; needed are one or two dimensions", base::quotable(tensor.name),
                base::quotable(shown(*shape)));
    }
    auto bytes = static_cast<std::int64_t>(tensor::size_of(tensor.dtype));
    for (const json& extent : *shape) {
      tensor.shape.push_back(integer(extent, "tensors.shape", 0, kMostSigned));
      if (__builtin_mul_overflow(bytes, tensor.shape.back(), &bytes)) {
        malformed("tensor '{}' has 2^63 bytes or more", base::quotable(tensor.name));
      }
    }
    return tensor;
  }

  ShardSummary file_of(const json& value) const {
    const auto [file, length, offset, bytes, index, rest] =
        values(value, "files", {"file", "length", "index_offset", "index_bytes", "index_digest", "rest_digest"});
    ShardSummary shard;
    shard.file = name(*file, "files.file");
    if (shard.file.find('/') != std::string::npos || shard.file == "." || shard.file == "..") {
      malformed("'files.file' is '{}'; needed is the name of a file without '/'", base::quotable(shard.file));
    }
    shard.length = number(*length, "files.length", 0, kMostSigned);
    shard.index_offset = number(*offset, "files.index_offset", 0, shard.length);
    shard.index_bytes = number(*bytes, "files.index_bytes", 0, shard.length - shard.index_offset);
    shard.index_digest = hex(*index, "files.index_digest");
    shard.rest_digest = hex(*rest, "files.rest_digest");
    return shard;
  }

  /// The values of a manifest, by version. Keys that version 1 lacks are null then.
  struct Values {
    const json *format, *program, *git_hash, *run, *serial, *step, *mesh, *data, *random, *plan, *deck, *tensors,
        *files, *digest;
    const json *parent = nullptr, *weights = nullptr, *loss = nullptr;
  };

  Values values_of(const json& top, std::int64_t version) const {
    if (version == 1) {
      const auto [format, program, git_hash, run, serial, step, mesh, data, random, plan, deck, tensors, files,
                  digest] = values(top, "manifest",
                                   {"format", "program", "git_hash", "run", "serial", "step", "mesh", "data", "random",
                                    "plan", "deck", "tensors", "files", "digest"});
      return {format, program, git_hash, run, serial, step, mesh, data, random, plan, deck, tensors, files, digest};
    }
    const auto [format, program, git_hash, run, parent, serial, step, mesh, data, weights, loss, random, plan, deck,
                tensors, files, digest] =
        values(top, "manifest",
               {"format", "program", "git_hash", "run", "parent", "serial", "step", "mesh", "data", "weights", "loss",
                "random", "plan", "deck", "tensors", "files", "digest"});
    return {format, program, git_hash, run,   serial, step,   mesh,    data, random,
            plan,   deck,    tensors,  files, digest, parent, weights, loss};
  }

  Manifest manifest_of(const json& top, std::int64_t version) const {
    const Values v = values_of(top, version);
    Manifest m;
    m.format = version;
    m.program = name(*v.program, "program");
    m.git_hash = name(*v.git_hash, "git_hash");
    m.run = name(*v.run, "run");
    m.serial = integer(*v.serial, "serial", 1, kMostSigned - 1);
    m.step = integer(*v.step, "step", 0, kMostInteger);
    read_mesh(*v.mesh, m);
    const auto [kind, init_seed] = values(*v.random, "random", {"kind", "init_seed"});
    if (text(*kind, "random.kind") != "counter") {
      malformed("'random.kind' is '{}'; known is 'counter'", base::quotable(text(*kind, "")));
    }
    m.init_seed = number(*init_seed, "random.init_seed", 0, std::numeric_limits<std::uint64_t>::max());
    m.plan = text(*v.plan, "plan");
    m.deck = list(*v.deck, "deck", &Parser::key_of);
    m.tensors = list(*v.tensors, "tensors", &Parser::tensor_of);
    m.files = list(*v.files, "files", &Parser::file_of);
    check_repeated(m);
    if (version == 1) {
      read_cursor_of_steps(*v.data, m);
      return m;
    }
    json data = *v.data;
    if (data.is_object() && data.contains("validation")) {  // not there without a validation
      m.validation = input_of(data.at("validation"), "data.validation");
      data.erase("validation");
    }
    const auto [sequences, seed, input] = values(data, "data", {"sequences", "seed", "input"});
    m.sequences = integer(*sequences, "data.sequences", 0, kMostSequences);
    m.data_seed = number(*seed, "data.seed", 0, std::numeric_limits<std::uint64_t>::max());
    m.data = input_of(*input, "data.input");
    m.weights = input_of(*v.weights, "weights");
    if (!v.parent->is_null()) {
      const auto [run, step] = values(*v.parent, "parent", {"run", "step"});
      m.parent = Parent{name(*run, "parent.run"), integer(*step, "parent.step", 0, kMostInteger)};
    }
    if (!v.loss->is_null()) {
      if (!v.loss->is_number()) malformed("'loss' is {}; needed is a number or null", base::quotable(shown(*v.loss)));
      m.loss = v.loss->get<double>();
    }
    return m;
  }

  /// In version 1 every step before the checkpoint trained as many sequences as the deck's batch says.
  void read_cursor_of_steps(const json& data, Manifest& m) const {
    const auto [step, seed] = values(data, "data", {"step", "seed"});
    if (integer(*step, "data.step", 0, kMostInteger) != m.step) {
      malformed("'data.step' is {} and 'step' is {}; they must be equal", shown(*step), m.step);
    }
    m.data_seed = number(*seed, "data.seed", 0, std::numeric_limits<std::uint64_t>::max());
    const auto key = std::find_if(m.deck.begin(), m.deck.end(), [](const auto& k) { return k.key == "data.batch"; });
    std::uint64_t batch = 0;
    if (key != m.deck.end()) {
      const char* const end = key->value.data() + key->value.size();
      const auto [rest, error] = std::from_chars(key->value.data(), end, batch);
      if (error != std::errc() || rest != end || batch > kMostInteger)
        malformed("the deck's data.batch is '{}'; needed is an integer", base::quotable(key->value));
    }
    m.sequences = m.step * static_cast<std::int64_t>(batch);
  }

  std::optional<ManifestInput> input_of(const json& value, std::string_view where) const {
    if (value.is_null()) return std::nullopt;
    const auto [path, length, samples, digest] = values(value, where, {"path", "length", "samples", "digest"});
    return ManifestInput{text(*path, where), number(*length, where, 0, kMostSigned),
                         integer(*samples, where, 0, kMostSigned), hex(*digest, where)};
  }

  void read_mesh(const json& mesh, Manifest& m) const {
    const char* names[base::kAxisCount];
    std::ranges::transform(base::kAxes, names, [](base::Axis axis) { return name_of(axis); });
    json dense = mesh;
    const json expert = dense.is_object() && dense.contains("expert") ? dense.at("expert") : json(1U);
    if (dense.is_object()) dense.erase("expert");  // not there without expert groups
    const auto extents = values(dense, "mesh", names);
    std::uint64_t most = kMostInteger;  // ranks are counted by an int
    for (std::size_t a = 0; a < extents.size(); ++a) {
      m.mesh.of[a] = static_cast<int>(integer(*extents[a], fmt::format("mesh.{}", names[a]), 1, most));
      most /= static_cast<std::uint64_t>(m.mesh.of[a]);
    }
    const auto model_ranks = static_cast<std::uint64_t>(m.mesh.ranks(base::AxisSet::model));
    m.mesh.expert = static_cast<int>(integer(expert, "mesh.expert", 1, model_ranks));
    if (model_ranks % static_cast<std::uint64_t>(m.mesh.expert) != 0)
      malformed("mesh.expert {} does not divide the {} ranks of shard and tensor", m.mesh.expert, model_ranks);
  }

  void check_repeated(const Manifest& m) const {
    std::set<std::pair<std::string_view, std::string_view>> tensors;
    for (const ManifestTensor& tensor : m.tensors) {
      if (!tensors.emplace(tensor.name, tensor.content).second) {
        malformed("tensor '{}', {} is there twice", base::quotable(tensor.name), base::quotable(tensor.content));
      }
    }
    std::set<std::string_view> files;
    for (const ShardSummary& shard : m.files) {
      if (!files.insert(shard.file).second) malformed("file '{}' is there twice", base::quotable(shard.file));
    }
    std::set<std::string_view> keys;
    for (const ManifestKey& key : m.deck) {
      if (!keys.insert(key.key).second) malformed("the deck's key '{}' is there twice", base::quotable(key.key));
    }
  }

  static std::string shown(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

  const std::string& path_;
};

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& path) { return Parser(path).parse(text); }

}  // namespace shard8::checkpoint
