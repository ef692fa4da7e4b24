// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/parts.hpp"
#include "deck/config.hpp"
#include "profile/exchange.hpp"

namespace shard8::model {

using profile::Exchange;
using profile::ExchangeMethod;

/// One exchange of the tensor group.
struct TensorExchange {
  Exchange name;
  ExchangeMethod method = ExchangeMethod::off;
  int splits = 0;  ///< direct: see for_each_arrival; 0 on hosts, whose products are of one rank
  int chunks = 1;  ///< pipeline: see for_each_chunk_of_rank; 1 on hosts

  bool hidden() const { return method != ExchangeMethod::off; }
  /// How its rows travel if it goes part by part.
  comm::Route route() const { return method == ExchangeMethod::ring ? comm::Route::ring : comm::Route::direct; }
  /// Whether it goes part by part through memory that the ranks share, if they can.
  bool shares_memory() const { return hidden() && route() == comm::Route::direct; }
};

/// The exchanges of a column-parallel linear.
struct ColumnExchanges {
  TensorExchange forward;  ///< gather of the input
  TensorExchange gather;   ///< gather of the input in backward, for wgrad; bulk: beside dgrad
  TensorExchange scatter;  ///< reduce-scatter of dgrad's result; bulk: beside wgrad

  bool bulk() const { return gather.hidden() || scatter.hidden(); }
};

/// The exchanges of a row-parallel linear.
struct RowExchanges {
  TensorExchange forward;       ///< reduce-scatter of the output
  TensorExchange gather;        ///< gather of dy, the output's gradient; bulk: beside the wgrad of the linear before
  bool wgrad_deferred = false;  ///< this linear's wgrad waits until the next such gather has begun
};

/// How the exchanges of the tensor group overlap with matrix products. Results do not depend on it: the same products
/// and sums are computed, in another order. Only the reduce-scatters of a ring add the ranks' summands in another
/// order.
///
/// The backward of a model meets row-parallel linears in the order fc2, proj of the last layer, fc2, proj of the layer
/// below, and so on. A gather of dy for one of them has no product of its own linear to run beside, because all of them
/// read dy. So the wgrad of the linear before is deferred: proj's gather runs beside fc2's wgrad, and fc2's gather
/// beside the wgrad of proj in the layer above.
struct Overlap {
  profile::ExchangeMethods methods{};  ///< none is automatic
  int splits = 0, chunks = 1;          ///< as in TensorExchange

  /// As the deck says for its tensor group; nothing overlaps in a group of one.
  static Overlap make(const deck::Config& deck);

  TensorExchange of(Exchange exchange) const { return {exchange, methods[exchange], splits, chunks}; }
  ColumnExchanges qkv() const;
  ColumnExchanges fc1() const;
  RowExchanges proj() const;
  RowExchanges fc2() const;

  bool any() const { return methods != profile::ExchangeMethods{}; }
  /// Whether an exchange goes part by part.
  bool by_parts() const;
  /// Whether the matrices that two linears gather must lie in the tensor group's memory at the same time.
  bool two_gathered() const { return of(Exchange::proj_dgrad).hidden() || of(Exchange::fc2_dgrad).hidden(); }
};

}  // namespace shard8::model
