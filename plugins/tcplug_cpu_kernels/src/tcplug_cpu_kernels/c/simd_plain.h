/* Sixteen lanes in plain C, which compilers turn into what the machine has; this is also what the lanes mean.

   Lane l of a vector belongs to quarter l / 4. Sums within a quarter are (0 + 2) + (1 + 3), of quarters
   (0 + 1) + (2 + 3). */
#include <math.h>
#include <string.h>

typedef struct { float v[16]; } vf;
typedef struct { int32_t v[16]; } vi;
typedef vi vp;
typedef struct { int8_t v[64]; } vb;
typedef struct { int16_t v[32]; } vh;

#define EACH(TYPE, N, EXPRESSION)                       \
  do {                                                  \
    TYPE to_;                                           \
    for (int i = 0; i < (N); i++) to_.v[i] = EXPRESSION; \
    return to_;                                         \
  } while (0)

#if defined(__aarch64__) || defined(__FP_FAST_FMAF)
#define FMA(A, B, C) __builtin_fmaf((A), (B), (C))
#else
#define FMA(A, B, C) ((A) * (B) + (C))
#endif

INLINE float bits_to_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
/* Exact: shift the half's exponent and mantissa up, then scale by 2^112; infinities and NaN get the largest exponent. */
INLINE float from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
  if (rest >= 0x0f800000) return bits_to_float(sign | 0x7f800000 | (rest & 0x007fffff));
  return bits_to_float(sign | 0x3f800000) * (bits_to_float(rest) * 0x1p112f);
}

/* Of whole numbers, as vf_round leaves them; NaN becomes 0, so that no conversion is undefined. */
INLINE int32_t whole(float a) { return a > -40000.0f && a < 40000.0f ? (int32_t)a : 0; }

INLINE vf vf_set1(float a) { EACH(vf, 16, a); }
INLINE vf vf_load(const void *p) { vf a; memcpy(&a, p, sizeof a); return a; }
INLINE void vf_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
INLINE vf vf_load_f16(const void *p) { uint16_t h[16]; memcpy(h, p, sizeof h); EACH(vf, 16, from_f16(h[i])); }
INLINE vf vf_load_bf16(const void *p) {
  uint16_t h[16];
  memcpy(h, p, sizeof h);
  EACH(vf, 16, bits_to_float((uint32_t)h[i] << 16));
}
INLINE vf vf_add(vf a, vf b) { EACH(vf, 16, a.v[i] + b.v[i]); }
INLINE vf vf_sub(vf a, vf b) { EACH(vf, 16, a.v[i] - b.v[i]); }
INLINE vf vf_mul(vf a, vf b) { EACH(vf, 16, a.v[i] * b.v[i]); }
INLINE vf vf_div(vf a, vf b) { EACH(vf, 16, a.v[i] / b.v[i]); }
INLINE vf vf_fma(vf a, vf b, vf c) { EACH(vf, 16, FMA(a.v[i], b.v[i], c.v[i])); }
/* The second where either is NaN, as x86 does. */
INLINE vf vf_max(vf a, vf b) { EACH(vf, 16, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
INLINE vf vf_min(vf a, vf b) { EACH(vf, 16, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
INLINE vf vf_abs(vf a) { EACH(vf, 16, __builtin_fabsf(a.v[i])); }
/* To nearest even, for magnitudes below 2^22. */
INLINE vf vf_round(vf a) { EACH(vf, 16, (a.v[i] + 0x1.8p23f) - 0x1.8p23f); }
INLINE vf vf_pow2(vf a) { EACH(vf, 16, bits_to_float((uint32_t)(whole(a.v[i]) + 127) << 23)); }
INLINE vf vf_from_vi(vi a) { EACH(vf, 16, (float)a.v[i]); }
INLINE vf vf_expand4(const float *p) { EACH(vf, 16, p[i / 4]); }

INLINE float quarter(vf a, int q) { return (a.v[4 * q] + a.v[4 * q + 2]) + (a.v[4 * q + 1] + a.v[4 * q + 3]); }
INLINE vf vf_reduce4(vf a, vf b, vf c, vf d) {
  const vf all[4] = {a, b, c, d};
  EACH(vf, 16, quarter(all[i % 4], i / 4));
}
INLINE void vf_fold(vf a, float *p) {
  for (int i = 0; i < 4; i++) p[i] = (a.v[i] + a.v[4 + i]) + (a.v[8 + i] + a.v[12 + i]);
}

INLINE vi vi_zero(void) { EACH(vi, 16, 0); }
INLINE int32_t quarter_int(vi a, int q) { return a.v[4 * q] + a.v[4 * q + 1] + a.v[4 * q + 2] + a.v[4 * q + 3]; }
INLINE vi vi_reduce4(vi a, vi b, vi c, vi d) {
  const vi all[4] = {a, b, c, d};
  EACH(vi, 16, quarter_int(all[i % 4], i / 4));
}
INLINE void vf_store_i8(int8_t *p, vf a) { for (int i = 0; i < 16; i++) p[i] = (int8_t)whole(a.v[i]); }
INLINE void vf_store_i16(int16_t *p, vf a) { for (int i = 0; i < 16; i++) p[i] = (int16_t)whole(a.v[i]); }

INLINE vb vb_load(const void *p) { vb a; memcpy(&a, p, sizeof a); return a; }
INLINE vb vb_low(vb a) { EACH(vb, 64, (int8_t)(a.v[i] & 15)); }
INLINE vb vb_high(vb a) { EACH(vb, 64, (int8_t)((uint8_t)a.v[i] >> 4)); }
/* Sums of four products of codes and activations a lane, of up to 32 in all. */
INLINE vp vp_zero(void) { return vi_zero(); }
INLINE vp vp_dot(vp sum, vb codes, const int8_t *four) {
  for (int i = 0; i < 64; i++) sum.v[i / 4] += codes.v[i] * four[i % 4];
  return sum;
}
INLINE vi vp_join(vp coarse, vp fine) { EACH(vi, 16, 128 * coarse.v[i] + fine.v[i]); }

INLINE vh vh_load(const int16_t *p) { vh a; memcpy(&a, p, sizeof a); return a; }
INLINE vh vh_load_i8(const void *p) { int8_t b[32]; memcpy(b, p, sizeof b); EACH(vh, 32, b[i]); }
INLINE vi vh_dot(vi sum, vh a, vh b) {
  for (int i = 0; i < 16; i++) sum.v[i] += a.v[2 * i] * b.v[2 * i] + a.v[2 * i + 1] * b.v[2 * i + 1];
  return sum;
}
