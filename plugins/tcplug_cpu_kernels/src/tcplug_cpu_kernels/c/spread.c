/* Which processor a thread of a team runs on.

   Where a team is as large as the set of processors that its process may use, each thread keeps to one of them. Left
   alone, the system often wakes two on one, where the first spins in a barrier that the second can't reach. The
   process's own first thread stays free: what it starts would be bound with it. */
#ifdef __linux__
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "isa.h"

#ifdef __linux__
static _Thread_local int64_t placed = -1;

static void keep_to(int cpu) {
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(cpu, &own);
  sched_setaffinity(0, sizeof own, &own);
}

static void place(const tc_team *t) {
  cpu_set_t all;
  pid_t first = getpid();
  if (syscall(SYS_gettid) == first || sched_getaffinity(first, sizeof all, &all) || CPU_COUNT(&all) != t->parts) return;
  int64_t before = t->part;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all) && before-- == 0) keep_to(cpu);
}

tc_team tc_spread(tc_team team) {
  if (team.parts > 1 && placed != team.part) {
    placed = team.part;
    place(&team);
  }
  return team;
}
#else
tc_team tc_spread(tc_team team) { return team; }
#endif
