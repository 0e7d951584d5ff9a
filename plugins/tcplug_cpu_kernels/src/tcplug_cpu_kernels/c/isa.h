/* Row operations that exist once per instruction set, and the activations that they work on. */
#ifndef TC_ISA_H
#define TC_ISA_H

#include "tc.h"

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#define TC_BLOCK 128 /* elements that the integer kernels take at a time */
#define TC_PANEL 16  /* outputs of int4 weights that lie together */
#define TC_PAGE 32   /* tokens per page of the cache */
#define TC_MAX_HEAD 256

/* 128 activations in two int8 parts, 128 * coarse + fine, a scale per sub-block of 32. `sum` is the scaled sum of a
   sub-block, which a minimum is multiplied with. */
typedef struct {
  int8_t coarse[TC_BLOCK], fine[TC_BLOCK];
  float scale[4], sum[4];
} tc_q8;

/* 128 activations as int16 with one scale, four times. */
typedef struct {
  int16_t value[TC_BLOCK];
  float scale[4];
} tc_q16;

/* Rows of activations, in the forms that the matrices over them need; a form that none needs is not filled. */
typedef struct {
  const float *x;
  int64_t stride; /* floats from row to row of x */
  int64_t width;
  int64_t blocks; /* from row to row of q8 and q16 */
  tc_q8 *q8;
  tc_q16 *q16;
} tc_act;

/* Where a linear writes: y = x @ w.T + bias + add. */
typedef struct {
  float *y;
  int64_t stride;
  const float *add; /* or NULL; may be y */
  int64_t add_stride;
} tc_sink;

/* One query over its cached keys and values; `pages` is the sequence's own row. */
typedef struct {
  const float *keys, *values;
  const int32_t *pages;
  int64_t first, last; /* positions seen, both included */
  int32_t kv_heads, kv_head, head_dim;
  float scale;
} tc_window;

typedef struct {
  /* Outputs [begin, end) of rows [0, rows). */
  void (*linear)(const tc_matrix *m, int64_t begin, int64_t end, const tc_act *a, int64_t rows, const tc_sink *sink);
  void (*embed)(const tc_matrix *m, int64_t row, float *y); /* one row [in] */
  void (*quantize8)(const float *x, int64_t count, tc_q8 *to); /* count <= 128, the rest is zero */
  void (*quantize16)(const float *x, int64_t count, tc_q16 *to);
  void (*norm)(const float *weight, float eps, const float *x, float *y, int64_t width);
  void (*gate)(float *gate, const float *up, int64_t count); /* gate = silu(gate) * up */
  void (*attend)(const tc_window *w, const float *q, float *y);
} tc_isa;

extern const tc_isa tc_plain;
#if defined(__x86_64__) && defined(__GNUC__)
#define TC_X86 1
extern const tc_isa tc_avx2, tc_avx512;
#endif

const tc_isa *tc_isa_now(void);

/* ---- work that threads of one parallel region share; `part` of `parts` is the calling thread's */

typedef struct {
  const tc_isa *isa;
  int64_t part, parts;
} tc_team;

/* `team`, whose thread calls this, on a processor of its own where there is one for each. */
tc_team tc_spread(tc_team team);

/* The calling thread's share [begin, end) of `units`. */
static inline void tc_share(const tc_team *t, int64_t units, int64_t *begin, int64_t *end) {
  *begin = units * t->part / t->parts;
  *end = units * (t->part + 1) / t->parts;
}

#define TC_ROWS 128 /* rows that a call takes at a time, which bounds its scratch */

static inline int64_t tc_blocks(int64_t width) { return (width + TC_BLOCK - 1) / TC_BLOCK; }
/* Bytes of the quantized forms of activations. */
int64_t tc_act_bytes(int64_t rows, int64_t width);
/* Lay out activations over x, with quantized forms in `scratch`. */
tc_act tc_act_over(const float *x, int64_t stride, int64_t rows, int64_t width, void *scratch);
enum { TC_NEEDS_8 = 1, TC_NEEDS_16 = 2 };
/* The quantized forms that `matrices` need of their activations. */
int tc_act_needs(const tc_matrix *const *matrices, int count);
/* Fill them for blocks [begin, end), counted row by row. */
void tc_act_fill(const tc_isa *isa, const tc_act *a, int needs, int64_t begin, int64_t end);
/* Threads that are worth waking for so many products. */
int tc_threads_for(int64_t products, int threads);
/* Several matrices over the same activations, the work divided over all their outputs. */
void tc_linears(const tc_team *t, const tc_matrix *const *matrices, const tc_sink *sinks, int count, const tc_act *a,
                int64_t rows);

#endif
