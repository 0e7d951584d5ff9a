#include "step.h"

#include <string.h>

#include "team.h"

static int row_is_wrong(const tc_step *s, const tc_cache *c, const int32_t *row, const int32_t *pages, int64_t n) {
  int64_t first = row[0], count = row[1], position = row[2];
  if (first < 0 || count < 0 || position < 0 || first + count > n) return 1;
  int64_t used = (position + count + TC_PAGE - 1) / TC_PAGE;
  if (used > s->width) return 1;
  for (int64_t p = 0; p < used; p++)
    if (pages[p] < 0 || pages[p] >= c->page_count) return 1;
  return 0;
}

int tc_step_check(const tc_step *s, const tc_cache *c, int64_t n) {
  int64_t tokens = 0;
  for (int32_t r = 0; r < s->row_count; r++) {
    const int32_t *row = s->rows + 4 * r;
    if (row[0] != tokens || row_is_wrong(s, c, row, s->pages + (int64_t)r * s->width, n)) return -1;
    tokens += row[1];
  }
  return tokens == n ? 0 : -1;
}

/* The row of the step that holds a token; rows are in order. */
static int32_t row_of(const tc_step *s, int64_t token) {
  int32_t low = 0, high = s->row_count - 1;
  while (low < high) {
    int32_t middle = (low + high + 1) / 2;
    if (s->rows[4 * middle] <= token) low = middle;
    else high = middle - 1;
  }
  while (s->rows[4 * low + 1] == 0) low--;
  return low;
}

static int64_t position_of(const tc_step *s, int32_t row, int64_t token) {
  return s->rows[4 * row + 2] + token - s->rows[4 * row];
}

static void rotate_head(float *x, const float *cos, const float *sin, int half) {
  for (int i = 0; i < half; i++) {
    float a = x[i], b = x[half + i];
    x[i] = a * cos[i] - b * sin[i];
    x[half + i] = b * cos[i] + a * sin[i];
  }
}

static void rotate(const tc_tokens *a, float *x, int64_t row) {
  const int half = a->rotary_dim / 2;
  const int64_t table = (a->first + row) * half;
  if (half) rotate_head(x, a->step->cos + table, a->step->sin + table, half);
}

void tc_append(const tc_team *t, const tc_tokens *a) {
  const tc_step *s = a->step;
  const int64_t width = (int64_t)a->kv_heads * a->head_dim;
  int64_t begin, end;
  tc_share(t, a->rows, &begin, &end);
  for (int64_t r = begin; r < end; r++) {
    int32_t row = row_of(s, a->first + r);
    int64_t position = position_of(s, row, a->first + r);
    int64_t page = s->pages[(int64_t)row * s->width + position / TC_PAGE];
    int64_t at = (page * TC_PAGE + position % TC_PAGE) * width;
    for (int32_t h = 0; h < a->kv_heads; h++) rotate(a, a->k + r * a->kv_stride + (int64_t)h * a->head_dim, r);
    memcpy(a->cache->keys + at, a->k + r * a->kv_stride, sizeof(float) * (size_t)width);
    memcpy(a->cache->values + at, a->v + r * a->kv_stride, sizeof(float) * (size_t)width);
  }
}

static void mix_head(const tc_team *t, const tc_tokens *a, int64_t row, int32_t head, float *y) {
  const tc_step *s = a->step;
  const tc_cache *c = a->cache;
  const int32_t sequence = row_of(s, a->first + row);
  const int64_t last = position_of(s, sequence, a->first + row);
  const int64_t first = c->sliding && last >= c->sliding ? last - c->sliding + 1 : 0;
  const tc_window window = {
      c->keys, c->values, s->pages + (int64_t)sequence * s->width, first, last,
      a->kv_heads, head / (a->heads / a->kv_heads), a->head_dim, a->scale,
  };
  float *q = a->q + row * a->q_stride + (int64_t)head * a->head_dim;
  rotate(a, q, row);
  t->isa->attend(&window, q, y + (row * a->heads + head) * a->head_dim);
}

void tc_mix(const tc_team *t, const tc_tokens *a, float *y) {
  int64_t units = a->rows * a->heads;
  /* Later tokens see more keys, so threads take them in turns, a whole group of heads at a time where there are many. */
  int64_t step = a->rows > 1 ? a->heads / a->kv_heads : (units + t->parts - 1) / t->parts;
  for (int64_t from = t->part * step; from < units; from += t->parts * step)
    for (int64_t u = from; u < units && u < from + step; u++)
      mix_head(t, a, u / a->heads, (int32_t)(u % a->heads), y);
}

int tc_attend(const tc_step *s, const tc_cache *c, const float *q, const float *k, const float *v, float *y, int64_t n,
              int32_t heads, int32_t kv_heads, int32_t head_dim, float scale, int threads) {
  if (tc_step_check(s, c, n)) return -1;
  const tc_tokens all = {
      s, c, 0, n, (float *)q, (float *)k, (float *)v, (int64_t)heads * head_dim, (int64_t)kv_heads * head_dim,
      heads, kv_heads, head_dim, 0, scale,
  };
  TC_PARALLEL(tc_threads_for(n * heads * head_dim * TC_PAGE, threads)) {
    tc_team t = TC_TEAM;
    tc_append(&t, &all);
    TC_BARRIER;
    tc_mix(&t, &all, y);
  }
  return 0;
}
