// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inspect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/state_tensor.hpp"
#include "deck/config.hpp"
#include "deck/fields.hpp"
#include "io/digest.hpp"

namespace shard8::checkpoint {
namespace {

/// Bytes of a box that are read at once. Chosen: 16 blocks of a file, so that few blocks are read twice.
constexpr auto kInspectedBytes = static_cast<std::int64_t>(16 * io::kShardBlock);

/// The sum of the hashes of a box's elements.
std::uint64_t hash_of(const io::ShardReader& file, std::size_t index) {
  const io::ShardBox& box = file.boxes()[index];
  const auto size = static_cast<std::size_t>(box.element_bytes);
  const std::int64_t whole_cols = box.shape.size() == 1 ? 1 : box.shape[1];
  const std::int64_t row_bytes = box.box.cols * box.element_bytes;
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, kInspectedBytes / row_bytes);
  std::vector<std::byte> panel;
  std::uint64_t sum = 0;
  for (std::int64_t first = 0; first < box.box.rows; first += rows_at_once) {
    const io::Box rows = io::clip_rows(box.box, box.box.row0 + first, rows_at_once);
    panel.resize(static_cast<std::size_t>(rows.rows * row_bytes));
    file.read(index, rows, panel.data(), row_bytes);
    const std::byte* next = panel.data();
    for (std::int64_t r = rows.row0; r < rows.row0 + rows.rows; ++r) {
      for (std::int64_t c = rows.col0; c < rows.col0 + rows.cols; ++c, next += size) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, next, size);
        sum += hash_element(r * whole_cols + c, bits);
      }
    }
  }
  return sum;
}

std::string dataset(const Checkpoint& checkpoint, std::size_t file, const std::string& name, const std::string& content,
                    const io::Box& box) {
  return fmt::format("{}: /tensors/{}/{}/r{}_c{}", checkpoint.manifest.files[file].file, name, content, box.row0,
                     box.col0);
}

std::int64_t end_row(const io::Box& box) { return box.row0 + box.rows; }

/// Messages about the index of a file: a box of a tensor that the manifest does not have so.
std::string problem_of_box(const Checkpoint& checkpoint, const ManifestTensor* tensor, const io::ShardBox& box,
                           std::size_t file) {
  std::string wrong;
  if (tensor == nullptr)
    wrong = "its tensor is not in the manifest";
  else if (box.dtype != tensor::name_of(tensor->dtype) || box.shape != tensor->shape)
    wrong = "its dtype or shape is not that of the manifest";
  else
    return {};
  return fmt::format("{}/{}: {}; use another checkpoint", checkpoint.folder, dataset_of(checkpoint, box, file), wrong);
}

}  // namespace

std::string dataset_of(const Checkpoint& checkpoint, const io::ShardBox& box, std::size_t file) {
  return dataset(checkpoint, file, box.name, box.content, box.box);
}

std::string dataset_of(const Checkpoint& checkpoint, const ManifestTensor& tensor, const PlacedBox& box) {
  return dataset(checkpoint, box.file, tensor.name, tensor.content, box.box);
}

std::vector<TensorSummary> summarise(const Checkpoint& checkpoint, bool hashes) {
  std::map<std::pair<std::string, std::string>, std::size_t> index;
  std::vector<TensorSummary> all;
  for (const ManifestTensor& t : checkpoint.manifest.tensors) {
    index[{t.name, t.content}] = all.size();
    auto& summary = all.emplace_back();
    summary.tensor = t;
    if (hashes) summary.hash = 0;
  }
  for (std::size_t f = 0; f < checkpoint.manifest.files.size(); ++f) {
    const io::ShardReader file = open_shard(checkpoint.folder, checkpoint.manifest, f);
    for (std::size_t b = 0; b < file.boxes().size(); ++b) {
      const io::ShardBox& box = file.boxes()[b];
      const auto found = index.find({box.name, box.content});
      if (found == index.end())
        base::fail(base::ExitCode::checkpoint, "{}/{}: its tensor is not in the manifest: use another checkpoint",
                   checkpoint.folder, dataset_of(checkpoint, box, f));
      TensorSummary& tensor = all[found->second];
      if (hashes) *tensor.hash += hash_of(file, b);
      tensor.bytes += box.bytes();
      tensor.boxes.push_back({f, b, box.box});
    }
  }
  for (TensorSummary& t : all)
    std::sort(t.boxes.begin(), t.boxes.end(), [](const PlacedBox& a, const PlacedBox& b) {
      return std::tuple(a.box.row0, a.box.col0) < std::tuple(b.box.row0, b.box.col0);
    });
  return all;
}

std::string problem_of_cover(const ManifestTensor& tensor, std::vector<PlacedBox> boxes, const Checkpoint& checkpoint) {
  const io::Box whole{0, tensor.shape[0], 0, tensor.shape.size() == 1 ? 1 : tensor.shape[1]};
  std::sort(boxes.begin(), boxes.end(), [](const PlacedBox& a, const PlacedBox& b) { return a.box.row0 < b.box.row0; });
  std::vector<const PlacedBox*> above;  // boxes that may reach the rows of the next one
  std::int64_t count = 0;
  for (const PlacedBox& placed : boxes) {
    const io::Box& box = placed.box;
    if (io::intersect(box, whole) != box) return dataset_of(checkpoint, tensor, placed) + " lies outside of it";
    std::erase_if(above, [&](const PlacedBox* other) { return end_row(other->box) <= box.row0; });
    for (const PlacedBox* other : above)
      if (!io::intersect(other->box, box).empty())
        return fmt::format("{} and {} overlap", dataset_of(checkpoint, tensor, *other),
                           dataset_of(checkpoint, tensor, placed));
    above.push_back(&placed);
    count += box.count();
  }
  if (count == whole.count()) return {};
  return fmt::format("{} of its {} elements are in no file", whole.count() - count, whole.count());
}

std::vector<std::string> problems_of_files(const Checkpoint& checkpoint) {
  const Manifest& m = checkpoint.manifest;
  std::vector<std::string> problems;
  std::map<std::pair<std::string, std::string>, const ManifestTensor*> known;
  for (const ManifestTensor& t : m.tensors) known[{t.name, t.content}] = &t;
  std::map<std::pair<std::string, std::string>, std::vector<PlacedBox>> boxes;
  bool all_known = true;  // whether all boxes of all tensors are in `boxes`
  for (std::size_t f = 0; f < m.files.size(); ++f) {
    bool opened = false;
    try {
      const io::ShardReader file = open_shard(checkpoint.folder, m, f);
      opened = true;
      for (std::size_t b = 0; b < file.boxes().size(); ++b) {
        const io::ShardBox& box = file.boxes()[b];
        const auto found = known.find({box.name, box.content});
        const auto problem = problem_of_box(checkpoint, found == known.end() ? nullptr : found->second, box, f);
        if (problem.empty()) {
          boxes[found->first].push_back({f, b, box.box});
        } else {
          problems.push_back(problem);
          all_known = false;
        }
      }
      file.verify_all();
    } catch (const base::Error& error) {
      problems.emplace_back(error.what());
      all_known = all_known && opened;
    }
  }
  if (!all_known) return problems;  // tensors would be told whose boxes are in a file that is told
  for (const auto& [key, tensor] : known) {
    const std::string problem = problem_of_cover(*tensor, boxes[key], checkpoint);
    if (!problem.empty())
      problems.push_back(fmt::format("{}: tensor {}, {}: {}; use another checkpoint", checkpoint.folder, tensor->name,
                                     tensor->content, problem));
  }
  return problems;
}

namespace {

using Json = nlohmann::ordered_json;
using Out = std::back_insert_iterator<std::string>;

std::string size_text(std::uint64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b >= 1e12) return fmt::format("{:.2f} TB", 1e-12 * b);
  if (b >= 1e9) return fmt::format("{:.2f} GB", 1e-9 * b);
  if (b >= 1e6) return fmt::format("{:.2f} MB", 1e-6 * b);
  return fmt::format("{:.2f} kB", 1e-3 * b);
}

std::uint64_t bytes_of(const Manifest& m) {
  std::uint64_t bytes = 0;
  for (const ShardSummary& file : m.files) bytes += file.length;
  return bytes;
}

/// Whether a deck that sets this key sets it to its default.
bool is_default(const ManifestKey& key) {
  const std::size_t dot = key.key.find('.');
  for (const deck::Group& group : deck::all_groups()) {
    if (dot == std::string::npos || group.name != key.key.substr(0, dot)) continue;
    const deck::Field* const field = deck::find_field(group, key.key.substr(dot + 1));
    return field != nullptr && deck::value_text(*field, deck::Config{}) == key.value;
  }
  return false;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.size() == 1 ? fmt::format("{}", shape[0]) : fmt::format("{} x {}", shape[0], shape[1]);
}

/// The width of the widest text and of the heading.
template <class Items, class Text>
std::size_t width_of(std::string_view heading, const Items& items, const Text& text) {
  std::size_t width = heading.size();
  for (const auto& item : items) width = std::max(width, std::string(text(item)).size());
  return width;
}

void show_header(Out out, const Checkpoint& checkpoint) {
  const Manifest& m = checkpoint.manifest;
  fmt::format_to(out, "checkpoint  {}\n", checkpoint.folder);
  fmt::format_to(out, "step        {}\n", m.step);
  fmt::format_to(out, "run         {}\n", base::printable(m.run));
  if (m.parent) fmt::format_to(out, "parent      {} at step {}\n", base::printable(m.parent->run), m.parent->step);
  fmt::format_to(out, "sequences   {}\n", m.sequences);
  const auto input = [&](const char* name, const std::optional<ManifestInput>& one) {
    if (one)
      fmt::format_to(out, "{:<12}{}, {} elements, digest {}\n", name, base::printable(one->path), one->length,
                     one->digest);
  };
  input("data", m.data);
  input("weights", m.weights);
  fmt::format_to(out, "written     as number {} of its folder\n", m.serial);
  fmt::format_to(out, "program     {} ({})\n", base::printable(m.program), base::printable(m.git_hash));
  fmt::format_to(out, "mesh        {} (replicate x shard x tensor)\n", text_of(m.mesh));
  fmt::format_to(out, "files       {}, {}\n", m.files.size(), size_text(bytes_of(m)));
  fmt::format_to(out, "deck        what is not a default:\n");
  const auto width = width_of("", m.deck, [](const ManifestKey& key) { return key.key; });
  for (const ManifestKey& key : m.deck)
    if (key.origin != "default" && !is_default(key))
      fmt::format_to(out, "  {:<{}}  {}\n", key.key, width, key.value.empty() ? "\"\"" : base::printable(key.value));
}

}  // namespace

std::string list_text(const Directory& directory) {
  struct Row {
    std::string step, written, mesh, run, size, files, state;
  };
  std::vector<std::pair<std::int64_t, Row>> rows;  // by serial; 0 where the manifest does not verify
  std::string reasons;
  const auto latest = directory.latest();
  for (const std::int64_t step : directory.steps()) {
    Row row;
    std::int64_t serial = 0;
    row.step = step_name(step);
    row.state = latest == step ? "usable, latest" : "usable";
    try {
      const Manifest m = read_manifest(directory.folder_of(step));
      serial = m.serial;
      row.written = std::to_string(m.serial);
      row.mesh = text_of(m.mesh);
      row.run = base::quotable(m.run);
      row.size = size_text(bytes_of(m));
      row.files = std::to_string(m.files.size());
      directory.open(step);
    } catch (const base::Error& error) {
      if (!directory.has(step)) continue;  // a run has removed it meanwhile
      row.state = latest == step ? "not usable, latest" : "not usable";
      reasons += fmt::format("\n{} is not usable: {}\n", step_name(step), error.what());
    }
    rows.emplace_back(serial, std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  rows.insert(rows.begin(), {0, {"checkpoint", "written", "mesh", "run", "size", "files", "state"}});
  std::string text = fmt::format("{}: {}\n", directory.path(), rows.size() - 1);
  const auto width = [&](std::string Row::*column) {
    return width_of("", rows, [&](const auto& row) { return row.second.*column; });
  };
  for (const auto& [serial, row] : rows)
    fmt::format_to(std::back_inserter(text), "{:<{}}  {:>{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}  {}\n", row.step,
                   width(&Row::step), row.written, width(&Row::written), row.mesh, width(&Row::mesh), row.run,
                   width(&Row::run), row.size, width(&Row::size), row.files, width(&Row::files), row.state);
  return text + reasons;
}

std::string show_text(const Checkpoint& checkpoint, const std::vector<TensorSummary>& tensors, bool boxes) {
  std::string text;
  const Out out = std::back_inserter(text);
  show_header(out, checkpoint);
  const auto name = width_of("tensor", tensors, [](const TensorSummary& t) { return t.tensor.name; });
  const auto content = width_of("content", tensors, [](const TensorSummary& t) { return t.tensor.content; });
  const auto shape = width_of("shape", tensors, [](const TensorSummary& t) { return shape_text(t.tensor.shape); });
  const auto line = [&](std::string_view a, std::string_view b, std::string_view c, std::string_view d,
                        const auto& count, const auto& bytes, std::string_view hash) {
    fmt::format_to(out, "{:<{}}  {:<{}}  {:<5}  {:<{}}  {:>5}  {:>14}{}{}\n", a, name, b, content, c, d, shape, count,
                   bytes, hash.empty() ? "" : "  ", hash);
  };
  const bool hashed = !tensors.empty() && tensors.front().hash.has_value();
  text += '\n';
  line("tensor", "content", "dtype", "shape", "boxes", "bytes", hashed ? "hash" : "");
  std::uint64_t bytes = 0, count = 0;
  for (const TensorSummary& t : tensors) {
    line(t.tensor.name, t.tensor.content, tensor::name_of(t.tensor.dtype), shape_text(t.tensor.shape), t.boxes.size(),
         t.bytes, t.hash ? io::hex_of(*t.hash) : "");
    bytes += t.bytes;
    count += t.boxes.size();
    if (!boxes) continue;
    for (const PlacedBox& b : t.boxes) {
      const io::Box& box = b.box;
      fmt::format_to(out, "    rows {} to {}, columns {} to {}: {}\n", box.row0, box.row0 + box.rows, box.col0,
                     box.col0 + box.cols, dataset_of(checkpoint, t.tensor, b));
    }
  }
  fmt::format_to(out, "{} tensors, {} boxes, {} bytes\n", tensors.size(), count, bytes);
  return text;
}

std::string show_json(const Checkpoint& checkpoint, const std::vector<TensorSummary>& tensors, bool boxes) {
  const Manifest& m = checkpoint.manifest;
  Json all = {{"folder", checkpoint.folder},
              {"step", m.step},
              {"run", m.run},
              {"parent", m.parent ? Json{{"run", m.parent->run}, {"step", m.parent->step}} : Json(nullptr)},
              {"sequences", m.sequences},
              {"loss", m.loss ? Json(*m.loss) : Json(nullptr)},
              {"serial", m.serial},
              {"program", m.program},
              {"git_hash", m.git_hash},
              {"mesh", base::json_of<Json>(m.mesh)},
              {"bytes", bytes_of(m)},
              {"deck", Json::array()},
              {"files", Json::array()},
              {"tensors", Json::array()}};
  for (const ManifestKey& key : m.deck)
    all["deck"].push_back({{"key", key.key}, {"value", key.value}, {"origin", key.origin}});
  for (const ShardSummary& file : m.files) all["files"].push_back({{"file", file.file}, {"length", file.length}});
  for (const TensorSummary& t : tensors) {
    Json tensor = {{"name", t.tensor.name},   {"content", t.tensor.content}, {"dtype", tensor::name_of(t.tensor.dtype)},
                   {"shape", t.tensor.shape}, {"box_count", t.boxes.size()}, {"bytes", t.bytes}};
    if (t.hash) tensor["hash"] = io::hex_of(*t.hash);
    if (boxes) {
      tensor["boxes"] = Json::array();
      for (const PlacedBox& b : t.boxes)
        tensor["boxes"].push_back({{"file", m.files[b.file].file},
                                   {"row0", b.box.row0},
                                   {"rows", b.box.rows},
                                   {"col0", b.box.col0},
                                   {"cols", b.box.cols}});
    }
    all["tensors"].push_back(std::move(tensor));
  }
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shard8::checkpoint
