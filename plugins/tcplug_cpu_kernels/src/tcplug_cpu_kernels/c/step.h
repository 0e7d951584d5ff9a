/* A step against one layer's cache: check, rotate, append, attend. */
#ifndef TC_STEP_H
#define TC_STEP_H

#include "isa.h"

/* Tokens [first, first + rows) of a step, and their queries, keys and values in strided rows. */
typedef struct {
  const tc_step *step;
  const tc_cache *cache;
  int64_t first, rows;
  float *q, *k, *v;
  int64_t q_stride, kv_stride;
  int32_t heads, kv_heads, head_dim, rotary_dim;
  float scale;
} tc_tokens;

/* 0, or -1 where the step points outside its n tokens or the cache. */
int tc_step_check(const tc_step *s, const tc_cache *c, int64_t n);
/* Rotate k in place, and copy k and v to their places in the cache. */
void tc_append(const tc_team *t, const tc_tokens *a);
/* Rotate q in place, and attend: y[rows, heads, head_dim]. Every token of these and of earlier rows is in the cache. */
void tc_mix(const tc_team *t, const tc_tokens *a, float *y);

#endif
