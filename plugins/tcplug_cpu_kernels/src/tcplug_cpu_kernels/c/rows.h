/* What happens to a row besides its products: norm, quantization, gate. Written over the lanes of simd_*.h. */

INLINE vf vf_zero(void) { return vf_set1(0.0f); }

/* The first `count` < 16 of a vector, the rest zero. */
INLINE vf vf_load_some(const float *p, int64_t count) {
  float padded[16] = {0};
  memcpy(padded, p, sizeof(float) * (size_t)count);
  return vf_load(padded);
}

INLINE void vf_store_some(float *p, vf a, int64_t count) {
  float padded[16];
  vf_store(padded, a);
  memcpy(p, padded, sizeof(float) * (size_t)count);
}

INLINE float vf_sum(vf a) {
  float q[4];
  vf_fold(a, q);
  return (q[0] + q[2]) + (q[1] + q[3]);
}

INLINE float vf_largest(vf a) {
  float lanes[16], largest;
  vf_store(lanes, a);
  largest = lanes[0];
  for (int i = 1; i < 16; i++) largest = lanes[i] > largest ? lanes[i] : largest;
  return largest;
}

/* e^x to about one unit in the last place, clamped to finite results; NaN stays NaN. Cody-Waite reduction and the
   polynomial of Cephes' expf. */
INLINE vf vf_exp(vf x) {
  x = vf_min(vf_set1(88.0f), vf_max(vf_set1(-87.0f), x));
  vf n = vf_round(vf_mul(x, vf_set1(1.44269504f)));
  vf r = vf_fma(n, vf_set1(2.12194440e-4f), vf_fma(n, vf_set1(-0.693359375f), x));
  vf p = vf_fma(vf_set1(1.9875691500e-4f), r, vf_set1(1.3981999507e-3f));
  p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
  p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
  p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
  p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
  return vf_mul(vf_add(vf_fma(p, vf_mul(r, r), r), vf_set1(1.0f)), vf_pow2(n));
}

static void norm_row(const float *weight, float eps, const float *x, float *y, int64_t width) {
  int64_t whole_part = width & ~(int64_t)15;
  vf squares = vf_zero();
  for (int64_t i = 0; i < whole_part; i += 16) squares = vf_fma(vf_load(x + i), vf_load(x + i), squares);
  if (whole_part < width) {
    vf rest = vf_load_some(x + whole_part, width - whole_part);
    squares = vf_fma(rest, rest, squares);
  }
  float factor = 1.0f / sqrtf(vf_sum(squares) / (float)width + eps);
  for (int64_t i = 0; i < width; i++) y[i] = x[i] * factor * weight[i];
}

static void gate_row(float *gate, const float *up, int64_t count) {
  const vf one = vf_set1(1.0f);
  for (int64_t i = 0; i < count; i += 16) {
    int64_t some = count - i < 16 ? count - i : 16;
    vf g = some == 16 ? vf_load(gate + i) : vf_load_some(gate + i, some);
    vf u = some == 16 ? vf_load(up + i) : vf_load_some(up + i, some);
    vf y = vf_mul(vf_div(g, vf_add(one, vf_exp(vf_sub(vf_zero(), g)))), u);
    if (some == 16) vf_store(gate + i, y);
    else vf_store_some(gate + i, y, some);
  }
}

/* Scale and 1 / scale for values up to `largest`. A poisoned group (infinite or NaN) gets a NaN scale, so that what is
   wrong stays visible; one too small to divide by is zero. */
INLINE float scale_of(float largest, float poison, float top, float *inverse) {
  *inverse = largest > 1e-30f ? top / largest : 0.0f;
  return (largest > 1e-30f ? largest / top : 0.0f) + poison;
}

INLINE const float *padded_block(const float *x, int64_t count, float *room) {
  if (count >= TC_BLOCK) return x;
  memset(room, 0, sizeof(float) * TC_BLOCK);
  memcpy(room, x, sizeof(float) * (size_t)count);
  return room;
}

/* So that the coarse part stays within 127. */
#define TOP (128.0f * 127 + 63)

static void quantize8(const float *x, int64_t count, tc_q8 *to) {
  float room[TC_BLOCK];
  x = padded_block(x, count, room);
  for (int s = 0; s < 4; s++) {
    vf both[2] = {vf_load(x + 32 * s), vf_load(x + 32 * s + 16)};
    float poison = vf_sum(vf_mul(vf_add(vf_mul(both[0], vf_zero()), both[1]), vf_zero()));
    float inverse, scale = scale_of(vf_largest(vf_max(vf_abs(both[0]), vf_abs(both[1]))), poison, TOP, &inverse);
    for (int i = 0; i < 2; i++) {
      both[i] = vf_round(vf_mul(both[i], vf_set1(inverse)));
      vf coarse = vf_round(vf_mul(both[i], vf_set1(1.0f / 128)));
      vf_store_i8(to->coarse + 32 * s + 16 * i, coarse);
      vf_store_i8(to->fine + 32 * s + 16 * i, vf_fma(coarse, vf_set1(-128.0f), both[i]));
    }
    to->scale[s] = scale;
    to->sum[s] = scale * vf_sum(vf_add(both[0], both[1]));
  }
}

static void quantize16(const float *x, int64_t count, tc_q16 *to) {
  float room[TC_BLOCK], inverse;
  vf largest = vf_zero(), poison = vf_zero();
  x = padded_block(x, count, room);
  for (int i = 0; i < TC_BLOCK; i += 16) {
    largest = vf_max(vf_abs(vf_load(x + i)), largest);
    poison = vf_fma(vf_load(x + i), vf_zero(), poison);
  }
  float scale = scale_of(vf_largest(largest), vf_sum(poison), 32767.0f, &inverse);
  for (int i = 0; i < TC_BLOCK; i += 16) vf_store_i16(to->value + i, vf_round(vf_mul(vf_load(x + i), vf_set1(inverse))));
  for (int s = 0; s < 4; s++) to->scale[s] = scale;
}
