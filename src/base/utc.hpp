// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shard8::base {

/// The system's clock, in seconds since the begin of 1970, UTC.
double unix_now();

/// The longest tick of the kernel, in seconds: the kernel knows when a process began, and when a file was written to,
/// as the begin of a tick.
inline constexpr double kTick_s = 0.01;

/// When this process began, on the same clock: unix_now() less the age of the process, which the kernel knows to
/// kTick_s. unix_now() where /proc does not tell the age.
double process_began();

/// When a file was last written to, on the same clock, up to kTick_s too early; nothing if it cannot be looked at.
std::optional<double> last_write(const std::string& path);

/// "2026-11-26T21:19:59.123Z" for seconds since the begin of 1970.
std::string utc_text(double unix_s);

/// Seconds since the begin of 1970 of a text as utc_text() gives it, with any number of decimals or none; nothing for
/// another text.
std::optional<double> unix_of(std::string_view text);

}  // namespace shard8::base
