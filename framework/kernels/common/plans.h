// Caches the plans by which libraries compute a problem, because creating a plan is expensive.
#pragma once

#include <cstddef>
#include <map>

#include "framework/base/namespace.h"

namespace taper::v0::kernels {

// Returns the cached plan for key, or caches the result of make(). The cache is per thread, so that
// a lookup needs no lock.
template <class Key, class Make> auto& plan_of(const Key& key, Make make) {
  constexpr size_t kMost = 1024;
  thread_local std::map<Key, decltype(make())> plans;
  const auto known = plans.find(key);
  if (known != plans.end()) return known->second;
  if (plans.size() >= kMost) plans.clear();
  return plans.emplace(key, make()).first->second;
}

}  // namespace taper::v0::kernels
