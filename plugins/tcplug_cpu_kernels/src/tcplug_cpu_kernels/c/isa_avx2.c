#include "isa.h"

#ifdef TC_X86
#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define ROWS_FLOAT 2
#define ROWS_INT8 2
#define ROWS_INT4 2
#define TABLE tc_avx2

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "simd_avx2.h"

#include "lanes.h"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
typedef int tc_no_avx2;
#endif
