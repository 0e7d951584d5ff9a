/* Which instruction set is used. */
#include "isa.h"

static const tc_isa *chosen;
static int level;

static int best_level(void) {
#ifdef TC_X86
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return 0;
  int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
  return wide ? 2 : 1;
#else
  return 0;
#endif
}

int tc_use(int wanted) {
  int best = best_level();
  level = wanted < best ? wanted : best;
#ifdef TC_X86
  chosen = level == 2 ? &tc_avx512 : level == 1 ? &tc_avx2 : &tc_plain;
#else
  chosen = &tc_plain;
#endif
  return level;
}

int tc_level(void) { return level; }

int tc_has_threads(void) {
#ifdef _OPENMP
  return 1;
#else
  return 0;
#endif
}

const tc_isa *tc_isa_now(void) { return chosen; }
