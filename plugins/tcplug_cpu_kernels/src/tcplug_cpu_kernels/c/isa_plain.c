#include "isa.h"

#define INLINE static inline
#undef UNROLL
#define UNROLL
#define ROWS_FLOAT 4
#define ROWS_INT8 4
#define ROWS_INT4 4
#define TABLE tc_plain

#include "simd_plain.h"

#include "lanes.h"
