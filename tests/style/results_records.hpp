// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

/// Measured figures as data: docs/results/*.json, from which the tables of the pages are drawn.
namespace results {

/// Collects what is wrong, one line each ("FILE: what is wrong; what to do"), so that everything is told at once.
using Problems = std::vector<std::string>;

struct Column {
  std::string name;
  std::string unit;   ///< empty: the column holds text; "1": numbers without a unit
  int digits = 0;     ///< digits behind the decimal point
  bool shown = true;  ///< false: the figures are kept and not drawn
};

/// One measurement.
struct Record {
  std::string file;     ///< name of its file in docs/results
  std::string subject;  ///< what was measured; of several records with one subject the newest is drawn
  std::string command, card, commit, date;
  int count = 0;  ///< how many of `card`
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  ///< cells as they are drawn; "" where nothing was measured
};

/// A figure with a unit that a page may state because a file of the project sets or checks it.
struct Limit {
  std::string page, figure, says, set_by;
};

struct Results {
  std::map<std::string, Record> newest;                 ///< by subject
  std::map<std::string, std::set<std::string>> values;  ///< by file: each number with its unit, as "93 %"
  std::vector<Limit> limits;                            ///< of docs/results/limits.json
};

/// Reads every docs/results/*.json below `root`. Reports files and records that have not what the format requires:
/// subject, command, machine (card and count), commit, date, columns with units, and rows.
Results read_results(const std::filesystem::path& root, Problems& problems);

/// A number and its unit in one spelling: without separators of thousands, "µs" for "us", "%" for "per cent".
std::string figure_of(std::string number, const std::string& unit);

/// The lines that stand on a page between the markers of a subject: command, table, machine and source.
/// `to_results` is the path from the page's folder to docs/results.
std::vector<std::string> draw(const Record& record, const std::string& to_results);

}  // namespace results
