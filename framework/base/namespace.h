// Declares the inline namespace in which all of Taper lives. Every header reaches this one, so
// files open `namespace taper::v0 {` in the plain form that editors, ctags and clang-format
// understand.
#pragma once

#ifdef __clang__
// Clang warns where an inline namespace is opened again without the word `inline`.
#pragma clang diagnostic ignored "-Winline-namespace-reopened-noninline"
#endif

namespace taper {
// Users write taper::Tensor. The version is part of every symbol, so that two versions of Taper can
// be loaded in one process.
inline namespace v0 {}
}  // namespace taper
