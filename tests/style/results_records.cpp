// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/style/results_records.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace results {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;

/// A key of an object that must be there and be a text that is not empty.
std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string() || found->get<std::string>().empty()) {
    throw std::runtime_error(std::string("needs the key \"") + key + "\" with a text");
  }
  return found->get<std::string>();
}

const json& list_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array() || found->empty()) {
    throw std::runtime_error(std::string("needs the key \"") + key + "\" with a list that is not empty");
  }
  return *found;
}

std::string cell_of(const json& cell, const Column& column) {
  if (cell.is_null()) return "";
  if (column.unit.empty()) {
    if (!cell.is_string()) throw std::runtime_error("the column '" + column.name + "' has no unit, so it holds texts");
    return cell.get<std::string>();
  }
  if (!cell.is_number()) throw std::runtime_error("the column '" + column.name + "' has a unit, so it holds numbers");
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", column.digits, cell.get<double>());
  return text;
}

Record record_of(const json& object, const std::string& file) {
  static const std::regex date("20[0-9]{2}-[01][0-9]-[0-3][0-9](T[0-2][0-9]:[0-5][0-9]Z)?");
  static const std::regex commit("[0-9a-f]{7,40}");
  Record record;
  record.file = file;
  record.subject = text_of(object, "subject");
  record.command = text_of(object, "command");
  record.commit = text_of(object, "commit");
  record.date = text_of(object, "date");
  if (!std::regex_match(record.date, date)) throw std::runtime_error("date is not YYYY-MM-DD or YYYY-MM-DDTHH:MMZ");
  if (!std::regex_match(record.commit, commit)) throw std::runtime_error("commit is not 7 to 40 hexadecimal digits");
  const json machine = object.value("machine", json::object());
  record.card = text_of(machine, "card");
  record.count = machine.value("count", 0);
  if (record.count < 1) throw std::runtime_error("machine needs \"count\", how many of its card");
  for (const json& column : list_of(object, "columns")) {
    record.columns.push_back(
        {column.at("name"), column.at("unit"), column.value("digits", 0), column.value("shown", true)});
  }
  for (const json& row : list_of(object, "rows")) {
    if (row.size() != record.columns.size()) throw std::runtime_error("a row has not one cell for each column");
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(cell_of(row[i], record.columns[i]));
    record.rows.push_back(cells);
  }
  return record;
}

/// A command in lines of about 110 characters, which a shell reads as one.
std::vector<std::string> wrapped(const std::string& command) {
  constexpr std::size_t kWidth = 110;  // chosen: a page has lines of at most 120 characters
  std::vector<std::string> lines{""};
  std::istringstream in(command);
  for (std::string word; in >> word;) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > kWidth) {
      lines.back() += " \\";
      lines.push_back("  " + word);
    } else {
      lines.back() += (lines.back().empty() ? "" : " ") + word;
    }
  }
  return lines;
}

void add_values(const Record& record, std::set<std::string>& values) {
  for (const auto& row : record.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!record.columns[i].unit.empty()) values.insert(figure_of(row[i], record.columns[i].unit));
    }
  }
}

/// Adds a record to the values of its file, and to the newest ones if there is no newer one of its subject.
void add_record(const json& object, const std::string& file, Results& results, Problems& problems) {
  try {
    const Record record = record_of(object, file);
    add_values(record, results.values[file]);
    const auto [found, added] = results.newest.emplace(record.subject, record);
    if (!added && found->second.date == record.date) throw std::runtime_error("is there twice with one date");
    if (!added && found->second.date < record.date) found->second = record;
  } catch (const std::exception& error) {
    const std::string subject = object.is_object() ? object.value("subject", "") : "";
    problems.push_back("docs/results/" + file + ": record '" + subject + "': " + error.what());
  }
}

void read_limits(const json& file, const fs::path& root, Results& results, Problems& problems) {
  for (const json& object : list_of(file, "limits")) {
    const Limit limit{text_of(object, "page"), text_of(object, "figure"), text_of(object, "says"),
                      text_of(object, "set_by")};
    for (const std::string& path : {limit.page, limit.set_by}) {
      if (!fs::exists(root / path)) problems.push_back("docs/results/limits.json: there is no file '" + path + "'");
    }
    results.limits.push_back(limit);
  }
}

}  // namespace

std::string figure_of(std::string number, const std::string& unit) {
  number.erase(std::remove(number.begin(), number.end(), ','), number.end());
  if (unit == "us") return number + " µs";
  if (unit == "per cent") return number + " %";
  return number + " " + unit;
}

Results read_results(const fs::path& root, Problems& problems) {
  Results results;
  std::set<fs::path> files;  // in the order of names
  if (fs::exists(root / "docs/results")) {
    for (const auto& entry : fs::directory_iterator(root / "docs/results")) files.insert(entry.path());
  }
  for (const fs::path& path : files) {
    if (path.extension() != ".json") continue;
    const std::string name = path.filename().string();
    const std::string place = "docs/results/" + name;
    try {
      std::ifstream in(path);
      const json file = json::parse(in);
      if (file.value("format", 0) != kFormat) throw std::runtime_error("\"format\" is not " + std::to_string(kFormat));
      if (name == "limits.json") {
        read_limits(file, root, results, problems);
      } else {
        for (const json& object : list_of(file, "records")) add_record(object, name, results, problems);
      }
    } catch (const std::exception& error) {
      problems.push_back(place + ": " + error.what());
    }
  }
  return results;
}

std::vector<std::string> draw(const Record& record, const std::string& to_results) {
  std::vector<std::string> lines{""};
  for (const std::string& line : wrapped(record.command)) lines.push_back("    " + line);
  lines.push_back("");
  std::vector<std::vector<std::string>> table(2);  // head, alignment, rows
  for (const Column& column : record.columns) {
    if (!column.shown) continue;
    const bool text = column.unit.empty();
    const bool named = column.name.rfind(column.unit + "/", 0) == 0;  // tokens/s/GPU in tokens/s
    const bool with_unit = !text && column.unit != "1" && !named;
    table[0].push_back(column.name + (with_unit ? ", " + column.unit : ""));
    table[1].push_back(text ? "---" : "--:");
  }
  for (const auto& row : record.rows) {
    table.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i)
      if (record.columns[i].shown) table.back().push_back(row[i]);
  }
  // A row may begin or end with a cell only if the cell is not empty.
  const bool outer = std::any_of(table.begin(), table.end(),
                                 [](const auto& row) { return row.front().empty() || row.back().empty(); });
  for (std::size_t r = 0; r < table.size(); ++r) {
    std::string line = outer ? "|" : "";
    for (std::size_t i = 0; i < table[r].size(); ++i) {
      const std::string gap = r == 1 || (line.empty() || table[r][i].empty()) ? "" : " ";
      line += gap + table[r][i];
      if (outer || i + 1 < table[r].size()) line += r == 1 ? "|" : " |";
    }
    lines.push_back(line);
  }
  lines.push_back("");
  lines.push_back(std::to_string(record.count) + " × " + record.card + "; [source](" + to_results + record.file + ")");
  lines.push_back("");
  return lines;
}

}  // namespace results
