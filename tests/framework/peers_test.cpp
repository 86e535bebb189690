// A waiting rank observes the processes on its host, and blames the one that ended first.
#include "framework/distributed/peers.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/locale_guard.h"

namespace taper::v0::distributed {
namespace {

// Ranks 0 and 1 run on this host, rank 2 on a host with another boot id.
struct ThreeRanks {
  Peers here[2], far;

  ThreeRanks() {
    std::string foreign = far.card();
    foreign.replace(0, foreign.find('\n', foreign.find('\n') + 1), "far\nanother boot pid:1");
    foreign.resize(far.card().size());
    const std::vector<std::string> cards = {here[0].card(), here[1].card(), foreign};
    for (int r = 0; r < 2; ++r) here[r].meet(cards, r);
  }
};

TEST(Peers, ARankThatWaitsInAnEarlierCallIsNotBlamed) {
  ThreeRanks ranks;
  for (Peers& peers : ranks.here) peers.count_call();
  const uint64_t call = ranks.here[0].count_call();
  const std::string unseen = "of those that cannot be seen from here (rank 2 (far)) one has";

  EXPECT_EQ(ranks.here[0].late_for(call).text, ranks.here[0].name_of(1) + " has not called it");
  ranks.here[1].set_waiting(true);
  EXPECT_EQ(ranks.here[0].late_for(call).text.substr(0, unseen.size()), unseen);
  EXPECT_EQ(ranks.here[0].late_for(call).rank, 2);
  ranks.here[1].set_waiting(false);
  EXPECT_EQ(ranks.here[0].late_for(call).rank, 1);
  ranks.here[1].count_call();
  EXPECT_EQ(ranks.here[0].late_for(call).rank, 2);
}

// French and Russian locales separate groups of digits by blanks.
TEST(Peers, RanksOfOneHostFindEachOtherInEveryLocale) {
  const test::GroupedLocaleGuard locale(' ');
  ThreeRanks ranks;
  const uint64_t call = ranks.here[0].count_call();
  EXPECT_EQ(ranks.here[0].late_for(call).text, ranks.here[0].name_of(1) + " has not called it");
}

// A rank that gives up because of another rank announces it and ends a moment later. An observer
// finds it alive or giving up, but never as a process that ended without reason.
TEST(Peers, ARankThatEndsBecauseOfAnotherIsNotBlamed) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  // the two processes alternate on one processor, at arbitrary moments
  sched_setaffinity(0, sizeof one, &one);
  for (int i = 0; i < 200; ++i) {
    Peers own, third;
    int from_child[2], to_child[2];
    ASSERT_EQ(pipe(from_child) | pipe(to_child), 0);
    const pid_t child = fork();
    if (child == 0) {
      Peers peers;
      const std::string card = peers.card();
      char go = 0;
      bool said = write(from_child[1], card.data(), card.size()) > 0;
      said = said && read(to_child[0], &go, 1) > 0;
      peers.fail(2);
      _exit(said ? 0 : 1);
    }
    std::string card = own.card();
    ASSERT_EQ(read(from_child[0], card.data(), card.size()), ssize_t(card.size()));
    own.meet({own.card(), card, third.card()}, 0);
    ASSERT_EQ(write(to_child[1], "g", 1), 1);
    Peers::Late lost;
    while (lost.text.empty()) lost = own.lost(1);
    EXPECT_EQ(lost.rank, 2) << i << ": " << lost.text;
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    for (const int file : {from_child[0], from_child[1], to_child[0], to_child[1]}) close(file);
    if (HasFailure()) break;
  }
  sched_setaffinity(0, sizeof all, &all);
}

}  // namespace
}  // namespace taper::v0::distributed
