// Declares the inline namespace of all of Taper. Every header includes this one directly or
// indirectly, so files open `namespace taper::v0 {` in the plain form that editors, ctags and
// clang-format understand.
#pragma once

#ifdef __clang__
// Clang warns if an inline namespace is reopened without the word `inline`.
#pragma clang diagnostic ignored "-Winline-namespace-reopened-noninline"
#endif

namespace taper {
// Users write taper::Tensor. The version is part of every symbol, so that two versions of Taper can
// be loaded into one process.
inline namespace v0 {}
}  // namespace taper
