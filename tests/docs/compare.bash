# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Compares lines that a page shows with what a command printed.

# without_figures: a text with '#' for every number, id and duration, one blank for several, and 'vm', the host of the pages,
# for this one. Names that hold digits (fp32) and words stay, except what depends on times: the overlap methods of `auto`, and
# the verdict at the end of a row of `compare`.
without_figures() {
  local host
  host="$(uname -n)"
  sed -E -e "s/\b(${host//./\\.}|${host%%.*})\b/vm/g" -e 's/\b[0-9a-f]{16}\b/#/g' -e 's/_[0-9]+\b/_#/g' \
    -e 's/\b[0-9]+([.,:][0-9]+)*(e[-+]?[0-9]+)?([KMG]?\b)/#\3/g' -e 's/(^|[ (])[-+]#/\1#/g' -e 's/\b(nan|inf)\b/#/g' \
    -e '/fprop|dgrad|wgrad/s/\b(direct|pipeline|bulk|ring|off)\b/METHOD/g' -e 's/^overlap {2,}.*/overlap METHOD/' \
    -e 's/± > /± /' -e 's/[[:blank:]]+/ /g' -e 's/^ | $//g' -e '/#/s/ (better|worse)$//'
}
# without_width: a text with one blank for several.
without_width() { sed -E -e 's/[[:blank:]]+/ /g' -e 's/^ | $//g'; }

# first_missing FILTER SHOWN OUTPUT: the number and the text of the first line of the text SHOWN that the file OUTPUT does
# not have behind the lines before it; nothing if it has all.
first_missing() {
  awk -v OFS=: '
    FILENAME == ARGV[1] { output[++printed] = $0; next }
    $0 == "" || $0 == "..." { next }
    {
      cut = sub(/ ?\.\.\.$/, "")
      for (found = 0; next_line < printed && !found;) {
        candidate = output[++next_line]
        found = cut ? index(candidate, $0) == 1 : candidate == $0
      }
      if (!found) { print FNR, $0; exit }
    }' <("$1" <"$3") <("$1" <<<"$2")
}
