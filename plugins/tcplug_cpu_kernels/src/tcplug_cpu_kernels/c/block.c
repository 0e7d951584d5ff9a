/* A pre-norm decoder block in one parallel region per TC_ROWS tokens. */
#include "isa.h"

#include "step.h"
#include "team.h"

typedef struct {
  const tc_block *b;
  int64_t hidden, inner, queries, keys; /* widths */
  float *x, *q, *k, *v, *mixed, *gate, *up;
  void *quantized;
} room;

static int64_t widest(const room *r) {
  int64_t most = r->hidden > r->inner ? r->hidden : r->inner;
  return most > r->queries ? most : r->queries;
}

static int64_t floats_per_row(const room *r) { return r->hidden + 2 * r->queries + 2 * r->keys + 2 * r->inner; }

static room room_of(const tc_block *b) {
  const int64_t queries = (int64_t)b->heads * b->head_dim, keys = (int64_t)b->kv_heads * b->head_dim;
  return (room){b, b->q.in, b->gate.out, queries, keys, 0, 0, 0, 0, 0, 0, 0, 0};
}

static int64_t rows_of(int64_t n) { return n < TC_ROWS ? n : TC_ROWS; }

int64_t tc_block_scratch(const tc_block *b, int64_t n) {
  room r = room_of(b);
  return 64 + rows_of(n) * 4 * floats_per_row(&r) + tc_act_bytes(rows_of(n), widest(&r));
}

static room room_in(const tc_block *b, int64_t rows, void *scratch) {
  room r = room_of(b);
  r.quantized = (void *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
  r.x = (float *)((char *)r.quantized + tc_act_bytes(rows, widest(&r)));
  r.q = r.x + rows * r.hidden;
  r.k = r.q + rows * r.queries;
  r.v = r.k + rows * r.keys;
  r.mixed = r.v + rows * r.keys;
  r.gate = r.mixed + rows * r.queries;
  r.up = r.gate + rows * r.inner;
  return r;
}

static tc_act act_over(const room *r, const float *x, int64_t width, int64_t rows) {
  return tc_act_over(x, width, rows, width, r->quantized);
}

/* Norm each row, and quantize it where it is still in the cache. */
static void norm_rows(const tc_team *t, const room *r, const float *weight, float eps, const float *x, int64_t rows,
                      int needs) {
  const tc_act a = act_over(r, r->x, r->hidden, rows);
  int64_t begin, end;
  tc_share(t, rows, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    t->isa->norm(weight, eps, x + i * r->hidden, r->x + i * r->hidden, r->hidden);
    tc_act_fill(t->isa, &a, needs, i * a.blocks, (i + 1) * a.blocks);
  }
}

/* gate = silu(gate) * up, quantized block by block. */
static void gate_rows(const tc_team *t, const room *r, const tc_act *a, int64_t rows, int needs) {
  int64_t begin, end;
  tc_share(t, rows * a->blocks, &begin, &end);
  for (int64_t u = begin; u < end; u++) {
    int64_t column = u % a->blocks * TC_BLOCK, at = u / a->blocks * r->inner + column;
    int64_t left = r->inner - column;
    t->isa->gate(r->gate + at, r->up + at, left < TC_BLOCK ? left : TC_BLOCK);
    tc_act_fill(t->isa, a, needs, u, u + 1);
  }
}

static void attention(const tc_team *t, const room *r, const tc_step *s, const tc_cache *c, const float *hidden,
                      float *out, int64_t first, int64_t rows) {
  const tc_block *b = r->b;
  const tc_matrix *qkv[] = {&b->q, &b->k, &b->v}, *o = &b->o;
  const tc_sink heads[] = {{r->q, r->queries, 0, 0}, {r->k, r->keys, 0, 0}, {r->v, r->keys, 0, 0}};
  const tc_sink residual = {out, r->hidden, hidden, r->hidden};
  const tc_act normed = act_over(r, r->x, r->hidden, rows), mixed = act_over(r, r->mixed, r->queries, rows);
  const tc_tokens tokens = {
      s, c, first, rows, r->q, r->k, r->v, r->queries, r->keys,
      b->heads, b->kv_heads, b->head_dim, b->rotary_dim, b->scale,
  };
  int64_t begin, end;
  norm_rows(t, r, b->attention_norm, b->attention_eps, hidden, rows, tc_act_needs(qkv, 3));
  TC_BARRIER;
  tc_linears(t, qkv, heads, 3, &normed, rows);
  TC_BARRIER;
  tc_append(t, &tokens);
  TC_BARRIER;
  tc_mix(t, &tokens, r->mixed);
  TC_BARRIER;
  tc_share(t, rows * mixed.blocks, &begin, &end);
  tc_act_fill(t->isa, &mixed, tc_act_needs(&o, 1), begin, end);
  TC_BARRIER;
  tc_linears(t, &o, &residual, 1, &mixed, rows);
}

static void mlp(const tc_team *t, const room *r, float *out, int64_t rows) {
  const tc_block *b = r->b;
  const tc_matrix *gate_up[] = {&b->gate, &b->up}, *down = &b->down;
  const tc_sink inner[] = {{r->gate, r->inner, 0, 0}, {r->up, r->inner, 0, 0}};
  const tc_sink residual = {out, r->hidden, out, r->hidden};
  const tc_act normed = act_over(r, r->x, r->hidden, rows), gated = act_over(r, r->gate, r->inner, rows);
  norm_rows(t, r, b->mlp_norm, b->mlp_eps, out, rows, tc_act_needs(gate_up, 2));
  TC_BARRIER;
  tc_linears(t, gate_up, inner, 2, &normed, rows);
  TC_BARRIER;
  gate_rows(t, r, &gated, rows, tc_act_needs(&down, 1));
  TC_BARRIER;
  tc_linears(t, &down, &residual, 1, &gated, rows);
}

int tc_block_forward(const tc_block *b, const tc_step *s, const tc_cache *c, const float *hidden, float *out, int64_t n,
                     void *scratch, int threads) {
  if (tc_step_check(s, c, n)) return -1;
  const room r = room_in(b, rows_of(n), scratch);
  const int64_t products = r.hidden * (2 * r.queries + 2 * r.keys + 3 * r.inner);
  for (int64_t first = 0; first < n; first += TC_ROWS) {
    const int64_t rows = n - first < TC_ROWS ? n - first : TC_ROWS, at = first * r.hidden;
    TC_PARALLEL(tc_threads_for(rows * products, threads)) {
      tc_team t = TC_TEAM;
      attention(&t, &r, s, c, hidden + at, out + at, first, rows);
      TC_BARRIER;
      mlp(&t, &r, out + at, rows);
    }
  }
  return 0;
}
