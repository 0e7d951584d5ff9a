/* One query over a sequence's pages, softmax kept online from page to page. Written over the lanes of simd_*.h.

   What is summed in which order depends on the query's position alone, never on what else is in the step. */

INLINE vf head_part(const float *p, int i, int dim) {
  return dim - i >= 16 ? vf_load(p + i) : vf_load_some(p + i, dim - i);
}

/* Scores of keys [begin, end) of one page into score[0, TC_PAGE); the others stay as they are. */
INLINE void page_scores(const tc_window *w, const float *q, const float *keys, int begin, int end, float *score) {
  const int64_t step = (int64_t)w->kv_heads * w->head_dim;
  for (int j = begin; j < end; j += 4) {
    const float *key[4];
    vf sum[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    float four[4];
    for (int i = 0; i < 4; i++) key[i] = keys + (j + i < end ? j + i : end - 1) * step;
    for (int d = 0; d < w->head_dim; d += 16) {
      vf x = head_part(q, d, w->head_dim);
      UNROLL for (int i = 0; i < 4; i++) sum[i] = vf_fma(x, head_part(key[i], d, w->head_dim), sum[i]);
    }
    vf_fold(vf_reduce4(sum[0], sum[1], sum[2], sum[3]), four);
    for (int i = 0; i < 4 && j + i < end; i++) score[j + i] = four[i] * w->scale;
  }
}

/* mix = mix * keep + sum of weight[j] * value[j], for N vectors from element d on. */
INLINE void mix_part(const int N, const tc_window *w, const float *values, int begin, int end, const float *weight,
                     float keep, int d, float *mix) {
  const int64_t step = (int64_t)w->kv_heads * w->head_dim;
  vf sum[4];
  UNROLL for (int i = 0; i < N; i++) sum[i] = vf_mul(vf_load(mix + d + 16 * i), vf_set1(keep));
  for (int j = begin; j < end; j++) {
    vf p = vf_set1(weight[j]);
    UNROLL for (int i = 0; i < N; i++)
      sum[i] = vf_fma(p, head_part(values + j * step, d + 16 * i, w->head_dim), sum[i]);
  }
  UNROLL for (int i = 0; i < N; i++) vf_store(mix + d + 16 * i, sum[i]);
}

INLINE void mix_page(const tc_window *w, const float *values, int begin, int end, const float *weight, float keep,
                     float *mix) {
  int d = 0;
  for (; d + 48 < w->head_dim; d += 64) mix_part(4, w, values, begin, end, weight, keep, d, mix);
  for (; d < w->head_dim; d += 16) mix_part(1, w, values, begin, end, weight, keep, d, mix);
}

static void attend_one(const tc_window *w, const float *q, float *y) {
  const int64_t page_size = (int64_t)TC_PAGE * w->kv_heads * w->head_dim;
  float mix[TC_MAX_HEAD + 64] = {0}, top = -INFINITY, total = 0.0f;
  for (int64_t page = w->first / TC_PAGE; page <= w->last / TC_PAGE; page++) {
    const int64_t from = page * TC_PAGE, at = w->pages[page] * page_size + (int64_t)w->kv_head * w->head_dim;
    const int begin = (int)(w->first > from ? w->first - from : 0);
    const int end = (int)(w->last - from < TC_PAGE ? w->last - from + 1 : TC_PAGE);
    float weight[TC_PAGE], new_top = top, both[16] = {0}, keep;
    for (int j = 0; j < TC_PAGE; j++) weight[j] = -INFINITY;
    page_scores(w, q, w->keys + at, begin, end, weight);
    for (int j = begin; j < end; j++) new_top = new_top > weight[j] ? new_top : weight[j];
    both[0] = top - new_top;
    vf_store(both, vf_exp(vf_load(both)));
    keep = top == -INFINITY ? 0.0f : both[0];
    for (int j = 0; j < TC_PAGE; j += 16)
      vf_store(weight + j, vf_exp(vf_sub(vf_load(weight + j), vf_set1(new_top))));
    for (int j = 0; j < TC_PAGE; j++) weight[j] = j < begin || j >= end ? 0.0f : weight[j];
    total = total * keep + vf_sum(vf_add(vf_load(weight), vf_load(weight + 16)));
    mix_page(w, w->values + at, begin, end, weight, keep, mix);
    top = new_top;
  }
  for (int d = 0; d < w->head_dim; d++) y[d] = mix[d] / total;
}
