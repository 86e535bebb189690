// Patterns for names with dots: what they match, and how they rename.
#include "framework/base/name_pattern.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace taper::v0::test {
namespace {

struct MatchRow {
  const char *pattern, *name;
  bool matches;
};
constexpr MatchRow kMatchRows[] = {
    {"conv1", "conv1.weight", true},
    {"conv1", "conv1", true},
    {"conv1", "conv10.weight", false},
    {"conv1", "layer1.conv1.weight", false},
    {"layer1.*", "layer1.0.conv1.weight", true},
    {"layer1.*", "layer1", false},
    {"layer1.*", "layer10.0.weight", false},
    {"layer*", "layer10.0.weight", true},
    {"*.bias", "layer1.0.bn1.bias", true},
    {"*.bias", "bias", false},
    {"*.bn1", "layer1.0.bn1.bias", true},
    {"*", "fc.weight", true},
    {"*", "", true},
    {"", "fc.weight", false},
    {"", "", false},
    {"h.0-5", "h.5.weight", true},
    {"h.0-5", "h.6.weight", false},
    {"h.0-5", "h.12.weight", false},
    {"h.0-5", "h.0-5.weight", false},
    {"h.0-11.*.weight", "h.10.attn.weight", true},
    {"h.0-11.*.weight", "h.10.attn.bias", false},
    {"h.0-5x", "h.0-5x.weight", true},  // not a range: an ordinary text
    {"h.1-99999999999999999999", "h.5.weight", false},
    {"fc.weight", "fc", false},
    {"fc.", "fc.weight", false},
    {"*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
};

TEST(NamePattern, MatchesAWholeNameOrWhatContainsIt) {
  for (const auto& [pattern, name, matches] : kMatchRows) {
    EXPECT_EQ(matches_name(pattern, name), matches) << pattern << " on " << name;
  }
}

TEST(NamePattern, TheLongestMatchWins) {
  const std::vector<std::string> patterns = {"*", "layer1.*", "layer1.0", "layer1.0"};
  EXPECT_EQ(longest_match(patterns, "layer1.0.weight"), 2u);  // equally long: the first
  EXPECT_EQ(longest_match(patterns, "fc.weight"), 0u);
  EXPECT_EQ(longest_match({"layer*", "layer4"}, "layer4.weight"), 1u);  // `*` has no length
  EXPECT_EQ(longest_match({"layer1", "fc"}, "conv1.weight"), std::nullopt);
  EXPECT_EQ(longest_match({}, "conv1.weight"), std::nullopt);
}

struct RenameRow {
  const char *pattern, *replacement, *name, *result;  // result: null if there is none
};
constexpr RenameRow kRenameRows[] = {
    {"module.*", "*", "module.fc.weight", "fc.weight"},
    {"backbone", "encoder", "backbone.fc.weight", "encoder.fc.weight"},
    {"h.*.mlp.*", "blocks.*.ff.*", "h.3.mlp.up.weight", "blocks.3.ff.up.weight"},
    {"*.*", "*/*", "a.b.c", "a/b.c"},  // `*` matches as little as possible
    {"a.0-3", "b", "a.2.x", "b.x"},
    {"head", "fc", "neck.weight", nullptr},
    {"*", "net.*", "fc.weight", "net.fc.weight"},
};

TEST(NamePattern, RenamesWhatItMatches) {
  for (const auto& [pattern, replacement, name, result] : kRenameRows) {
    const auto got = rename_matched(pattern, replacement, name);
    EXPECT_EQ(got.value_or("none"), result ? result : "none") << pattern << " on " << name;
  }
  EXPECT_THROW((void)rename_matched("a.*", "*.*", "a.b"), ValueError);
}

}  // namespace
}  // namespace taper::v0::test
