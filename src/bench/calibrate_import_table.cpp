// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "bench/bench.hpp"
#include "bench/calibrate_import.hpp"

namespace shard8::bench {
namespace {

using profile::Collective;
using Words = std::vector<std::string>;

/// A number that is the whole word, nan and inf among them; nan for one that a double cannot hold.
std::optional<double> number(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc::invalid_argument || end != word.data() + word.size()) return std::nullopt;
  return error == std::errc() ? value : std::nan("");
}

/// A number above 0 that is the whole word.
double positive(const std::string& word, const char* what, const std::string& place) {
  const auto value = number(word);
  if (!value || !(*value > 0))
    refuse_import(place, fmt::format("{} is '{}', but must be a number above 0", what, base::quotable(word)),
                  kMeasureAgain);
  return *value;
}

/// Calls `line` with the words, the text and the place of each line.
template <class Line>
void each_line(const Import& import, const Line& line) {
  std::istringstream in(import.text);
  int number = 0;
  for (std::string text; std::getline(in, text);) {
    if (text.ends_with('\r')) text.pop_back();
    std::istringstream words(text);
    line(Words{std::istream_iterator<std::string>(words), {}}, text, fmt::format("{}:{}", import.file, ++number));
  }
}

/// Error(deck) if a line whose first word is no number is a row all the same: it has a word below each of two columns
/// or more, and most are numbers. Launchers' lines are not.
void require_no_row(const Words& words, const Words& columns, const std::string& place) {
  const auto numbers =
      std::count_if(words.begin(), words.end(), [](const auto& word) { return number(word).has_value(); });
  if (columns.size() > 1 && words.size() == columns.size() && 2 * numbers >= std::ssize(words))
    refuse_import(place, fmt::format("size is '{}', but must be a number of bytes", base::quotable(words[0])),
                  kMeasureAgain);
}

[[noreturn]] void refuse_columns(const Words& words, std::size_t columns, const std::string& place) {
  refuse_import(place,
                fmt::format("it has {} of {} columns{}", words.size(), columns,
                            words.size() < columns ? ": the line is cut off, or another one begins in it" : ""),
                kMeasureAgain);
}

/// What the tables of both programs share: which collective the rows are of.
class Table {
 public:
  explicit Table(Import& import) : import_(import) {}

 protected:
  /// A line says which program begins. Rows of other collectives than a machine file's are left out.
  void announce(const std::string& program, const std::string& place) {
    op_ = operation_in(program);
    left_out_ = !op_;
    if (left_out_)
      import_.remark(place, fmt::format("'{}' times no collective of a machine file: its rows are left out",
                                        base::quotable(program)));
  }

  Import& import_;
  std::optional<Collective> op_;
  bool left_out_ = false;
};

/// Reads tables of nccl-tests. A file may have several runs. Since 2.17 a run begins with the name of its program.
class NcclTable : Table {
 public:
  using Table::Table;

  void line(const Words& words, const std::string& text, const std::string& place) {
    if (words.empty()) return;
    if (text.find("Out of bounds values") != std::string::npos && text.find("FAILED") != std::string::npos &&
        !left_out_)
      refuse_import(place, "the program found values out of bounds: data came out wrong", kMeasureAgain);
    if (words[0].starts_with('#'))
      comment(words, text, place);
    else
      row(words, place);
  }

 private:
  void begin_run() {
    op_.reset();
    left_out_ = has_rows_ = false;
    ranks_of_.clear();
    group_.reset();
    columns_.clear();
  }

  void comment(const Words& words, const std::string& text, const std::string& place) {
    static const std::regex kRank(R"(#\s+Rank\s+\d+(?:\s+Group\s+(\d+))?\s.*\son\s+(\S+)\s+device.*)");
    constexpr std::string_view kStarting = "Collective test starting:";
    std::smatch m;
    if (const auto at = text.find(kStarting); at != std::string::npos) {
      begin_run();
      std::string program = words.back();
      announce(program.substr(program.find_last_of('/') + 1), place);
    } else if (text.starts_with("# nThread") || text.starts_with("# Using devices")) {
      if (has_rows_) begin_run();
    } else if (std::regex_match(text, m, kRank)) {
      if (has_rows_) begin_run();
      if (ranks_of_.empty()) place_of_ranks_ = place;
      ++ranks_of_[m[2]];
      if (group_ && *group_ != m[1])
        refuse_import(place, "its ranks are several groups that ran at once",
                      "measure one group: unset NCCL_TESTS_SPLIT");
      group_ = m[1];
    } else if (words.size() > 2 && words[1] == "size" && words[2] == "count") {
      columns_.assign(words.begin() + 1, words.end());
    } else if (words.size() > 1 && words[1] == "(B)") {
      for (const char* const unit : {"(s)", "(ms)", "(ns)"})
        if (std::find(words.begin(), words.end(), unit) != words.end())
          refuse_import(place, fmt::format("times are in {}, but must be in (us)", unit), kMeasureAgain);
    }
  }

  void row(const Words& words, const std::string& place) {
    const auto size = number(words[0]);
    if (!size) require_no_row(words, columns_, place);
    if (!size || *size == 0) return;  // a line of the launcher or of NCCL_DEBUG, or a size of 0
    if (columns_.empty())
      refuse_import(place, "it has values, but no line above names the columns ('#  size  count …')");
    const bool first = !has_rows_;
    has_rows_ = true;
    if (left_out_) return;
    if (!op_ && runs_ > 0)
      refuse_import(place, "another run begins above, and the file does not say of which collective",
                    "give each run a file of its own, named after the program, as in all_gather_perf.txt");
    if (!op_) op_ = import_.operation_of_name();
    const Collective kind = import_.need(op_);
    if (first) {
      ++runs_;
      import_.set_shape(ranks_of_, place_of_ranks_);
      import_.need_shape();
    }
    Words columns = columns_;
    // Some versions name the column redop where collectives without a reduction have nothing in it.
    const auto redop = std::find(columns.begin(), columns.end(), "redop");
    if (words.size() + 1 == columns.size() && redop != columns.end() &&
        number(words[static_cast<std::size_t>(redop - columns.begin())]))
      columns.erase(redop);
    if (words.size() < columns.size()) refuse_columns(words, columns.size(), place);
    std::vector<std::size_t> times;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (columns[c] == "time") times.push_back(c);
      if (columns[c] == "#wrong" && words[c] != "N/A" && number(words[c]) != 0)
        refuse_import(place, fmt::format("#wrong is '{}': data came out wrong", base::quotable(words[c])),
                      kMeasureAgain);
    }
    if (times.empty()) refuse_import(place, "no column is named 'time': leave out --report_cputime");
    const std::size_t column = in_place(kind) ? times.back() : times.front();
    import_.add(kind, *size, positive(words[column], "time", place), place);
  }

  std::map<std::string, std::int64_t> ranks_of_;  ///< by host
  std::string place_of_ranks_;
  std::optional<std::string> group_;
  Words columns_;
  int runs_ = 0;
  bool has_rows_ = false;
};

/// Reads tables of the OSU micro-benchmarks. A file may have several tests, each with a title and a heading.
class OsuTable : Table {
 public:
  using Table::Table;

  void line(const Words& words, const std::string& text, const std::string& place) {
    if (words.empty()) return;
    if (!words[0].starts_with('#')) return row(words, place);
    if (words.size() > 1 && words[1] == "OSU") {
      columns_.clear();
      announce(text.substr(text.find("OSU")), place);
    } else if (words.size() > 1 && words[1] == "Size") {
      heading(words, place);
    }
  }

  void end() {
    if (!last_.empty() && !import_.text.ends_with('\n') && time_ + 1 == columns_.size())
      import_.remark(last_, "the file ends without the end of this line: its time may be cut off");
  }

 private:
  /// Columns are "Size", "Avg Latency(us)", "Iterations", …: a name ends with its unit, unless it has none.
  void heading(const Words& words, const std::string& place) {
    columns_.clear();
    std::string name;
    for (std::size_t i = 1; i < words.size(); ++i) {
      name += words[i];
      if (!name.ends_with(')') && words[i] != "Size" && words[i] != "Iterations" && words[i] != "Validation") continue;
      columns_.push_back(std::exchange(name, {}));
    }
    if (left_out_) return;
    static const std::regex kTime(R"((AvgLatency|Latency|PureComm\.)\((\w+)\))");
    static const std::map<std::string, double> kUnits = {{"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}};
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::smatch m;
      if (!std::regex_match(columns_[c], m, kTime)) continue;
      const auto unit = kUnits.find(m[2]);
      if (unit == kUnits.end())
        refuse_import(place, fmt::format("times are in '{}', but must be in us", base::quotable(m[2].str())));
      time_ = c;
      us_ = unit->second;
      if (m[1] == "PureComm.")
        import_.remark(place, "times are those of the column Pure Comm., the collective without computation");
      return;
    }
    refuse_import(place, "no column is named 'Avg Latency(us)' or 'Pure Comm.(us)'");
  }

  void row(const Words& words, const std::string& place) {
    const auto size = number(words[0]);
    last_.clear();
    if (!size) require_no_row(words, columns_, place);
    if (!size || *size == 0 || left_out_) return;  // a line of the launcher, or a size of 0
    const Collective kind = import_.need(op_);
    import_.need_shape();
    if (columns_.empty())
      refuse_import(place, "it has values, but no line above names the columns ('# Size  Avg Latency(us)')");
    if (words.size() != columns_.size()) refuse_columns(words, columns_.size(), place);
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c] == "Validation" && words[c] != "Pass")
        refuse_import(place, fmt::format("Validation is '{}': data came out wrong", base::quotable(words[c])),
                      kMeasureAgain);
    // osu_allgather and osu_alltoall count what a rank gives to each rank, the others count the whole.
    const bool of_rank = kind == Collective::all_gather || kind == Collective::all_to_all;
    require_size(*size, place);
    import_.add(kind, *size * (of_rank ? import_.nodes * import_.ranks : 1),
                us_ * positive(words[time_], "latency", place), place);
    last_ = place;
  }

  Words columns_;
  std::size_t time_ = 0;  ///< the column of the time
  double us_ = 1;         ///< microseconds in a unit of that column
  std::string last_;      ///< place of the last line, if that is a row
};

}  // namespace

void read_nccl_table(Import& import) {
  NcclTable table(import);
  each_line(import, [&](const auto&... line) { table.line(line...); });
}

void read_osu_table(Import& import) {
  OsuTable table(import);
  each_line(import, [&](const auto&... line) { table.line(line...); });
  table.end();
}

}  // namespace shard8::bench
