/* Activations, the sharing out of linears, and the calls that are one leaf. */
#include "isa.h"

#include "team.h"

/* Below so many products a call is over before a second thread has begun. */
#define FEW_PRODUCTS (1 << 16)

static int kind_of(const tc_matrix *m) {
  return m->format == TC_INT8 ? TC_NEEDS_16 : m->format > TC_INT8 ? TC_NEEDS_8 : 0;
}

int tc_threads_for(int64_t products, int threads) { return products < FEW_PRODUCTS ? 1 : threads; }

int64_t tc_act_bytes(int64_t rows, int64_t width) {
  return rows * tc_blocks(width) * (int64_t)(sizeof(tc_q8) + sizeof(tc_q16));
}

tc_act tc_act_over(const float *x, int64_t stride, int64_t rows, int64_t width, void *scratch) {
  tc_act a = {x, stride, width, tc_blocks(width), scratch, 0};
  a.q16 = (tc_q16 *)(a.q8 + rows * a.blocks);
  return a;
}

int tc_act_needs(const tc_matrix *const *matrices, int count) {
  int needs = 0;
  for (int i = 0; i < count; i++) needs |= kind_of(matrices[i]);
  return needs;
}

void tc_act_fill(const tc_isa *isa, const tc_act *a, int needs, int64_t begin, int64_t end) {
  if (!needs) return;
  for (int64_t u = begin; u < end; u++) {
    int64_t row = u / a->blocks, at = u % a->blocks * TC_BLOCK;
    const float *x = a->x + row * a->stride + at;
    if (needs & TC_NEEDS_8) isa->quantize8(x, a->width - at, a->q8 + u);
    if (needs & TC_NEEDS_16) isa->quantize16(x, a->width - at, a->q16 + u);
  }
}

/* Rows whose activations stay in a core's second-level cache while a matrix passes by. */
static int64_t rows_at_once(const tc_matrix *m) {
  int kind = kind_of(m);
  int64_t bytes = kind == 0 ? 4 * m->in : tc_blocks(m->in) * (int64_t)(kind == TC_NEEDS_8 ? sizeof(tc_q8) : sizeof(tc_q16));
  int64_t rows = (384 << 10) / bytes & ~(int64_t)7;
  return rows < 8 ? 8 : rows;
}

static void linear_part(const tc_team *t, const tc_matrix *m, int64_t begin, int64_t end, const tc_act *all,
                        int64_t rows, const tc_sink *to) {
  int64_t step = rows_at_once(m);
  for (int64_t r = 0; r < rows; r += step) {
    tc_act a = *all;
    tc_sink sink = *to;
    a.x += r * a.stride;
    a.q8 += r * a.blocks;
    a.q16 += r * a.blocks;
    sink.y += r * sink.stride;
    if (sink.add) sink.add += r * sink.add_stride;
    t->isa->linear(m, begin, end, &a, rows - r < step ? rows - r : step, &sink);
  }
}

void tc_linears(const tc_team *t, const tc_matrix *const *matrices, const tc_sink *sinks, int count, const tc_act *a,
                int64_t rows) {
  int64_t units = 0, begin, end;
  for (int i = 0; i < count; i++) units += (matrices[i]->out + TC_PANEL - 1) / TC_PANEL;
  tc_share(t, units, &begin, &end);
  for (int i = 0; i < count; i++) {
    const tc_matrix *m = matrices[i];
    int64_t own = (m->out + TC_PANEL - 1) / TC_PANEL, from = begin < 0 ? 0 : begin, to = end < own ? end : own;
    if (from < to) linear_part(t, m, TC_PANEL * from, TC_PANEL * to < m->out ? TC_PANEL * to : m->out, a, rows, sinks + i);
    begin -= own;
    end -= own;
  }
}

int64_t tc_linear_scratch(const tc_matrix *m, int64_t n) { return tc_act_bytes(n < TC_ROWS ? n : TC_ROWS, m->in); }

static void linear_chunk(const tc_team *t, const tc_matrix *m, const float *x, float *y, int64_t rows, void *scratch) {
  tc_act a = tc_act_over(x, m->in, rows, m->in, scratch);
  tc_sink sink = {y, m->out, 0, 0};
  int64_t begin, end;
  tc_share(t, rows * a.blocks, &begin, &end);
  tc_act_fill(t->isa, &a, kind_of(m), begin, end);
  TC_BARRIER;
  tc_linears(t, &m, &sink, 1, &a, rows);
}

void tc_linear(const tc_matrix *m, const float *x, float *y, int64_t n, void *scratch, int threads) {
  for (int64_t r = 0; r < n; r += TC_ROWS) {
    int64_t rows = n - r < TC_ROWS ? n - r : TC_ROWS;
    TC_PARALLEL(tc_threads_for(rows * m->in * m->out, threads)) {
      tc_team t = TC_TEAM;
      linear_chunk(&t, m, x + r * m->in, y + r * m->out, rows, scratch);
    }
  }
}

int tc_embed(const tc_matrix *m, const int32_t *ids, float *y, int64_t n, int threads) {
  for (int64_t r = 0; r < n; r++)
    if (ids[r] < 0 || ids[r] >= m->out) return -1;
  TC_PARALLEL(tc_threads_for(n * m->in, threads)) {
    tc_team t = TC_TEAM;
    int64_t begin, end;
    tc_share(&t, n, &begin, &end);
    for (int64_t r = begin; r < end; r++) t.isa->embed(m, ids[r], y + r * m->in);
  }
  return 0;
}

void tc_norm(const float *weight, float eps, const float *x, float *y, int64_t n, int64_t width, int threads) {
  TC_PARALLEL(tc_threads_for(n * width, threads)) {
    tc_team t = TC_TEAM;
    int64_t begin, end;
    tc_share(&t, n, &begin, &end);
    for (int64_t r = begin; r < end; r++) t.isa->norm(weight, eps, x + r * width, y + r * width, width);
  }
}
