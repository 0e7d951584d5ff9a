/* Sixteen lanes in AVX-512 registers. The order of every sum is the one that simd_plain.h spells out. */
#include <immintrin.h>

typedef __m512 vf;
typedef __m512i vi, vb, vh, vp;

INLINE vf vf_set1(float a) { return _mm512_set1_ps(a); }
INLINE vf vf_load(const void *p) { return _mm512_loadu_ps(p); }
INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
INLINE vf vf_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
INLINE vf vf_load_bf16(const void *p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
INLINE vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE vf vf_pow2(vf a) {
  __m512i n = _mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(n, 23));
}
INLINE vf vf_from_vi(vi a) { return _mm512_cvtepi32_ps(a); }
INLINE vf vf_expand4(const float *p) {
  __m512i index = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm512_permutexvar_ps(index, _mm512_castps128_ps512(_mm_loadu_ps(p)));
}

INLINE vf vf_reduce4(vf a, vf b, vf c, vf d) {
  vf ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  vf cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  __m512d lo = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  __m512d hi = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  return _mm512_add_ps(_mm512_castpd_ps(lo), _mm512_castpd_ps(hi));
}
INLINE void vf_fold(vf a, float *p) {
  __m128 low = _mm_add_ps(_mm512_castps512_ps128(a), _mm512_extractf32x4_ps(a, 1));
  __m128 high = _mm_add_ps(_mm512_extractf32x4_ps(a, 2), _mm512_extractf32x4_ps(a, 3));
  _mm_storeu_ps(p, _mm_add_ps(low, high));
}

INLINE vi vi_zero(void) { return _mm512_setzero_si512(); }
INLINE vi vi_reduce4(vi a, vi b, vi c, vi d) {
  vi ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  vi cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}
INLINE void vf_store_i8(int8_t *p, vf a) { _mm_storeu_si128((void *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a))); }
INLINE void vf_store_i16(int16_t *p, vf a) {
  _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(a)));
}

INLINE vb vb_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE vb vb_low(vb a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
INLINE vb vb_high(vb a) { return _mm512_and_si512(_mm512_srli_epi16(a, 4), _mm512_set1_epi8(15)); }
INLINE vp vp_zero(void) { return _mm512_setzero_si512(); }
INLINE vp vp_dot(vp sum, vb codes, const int8_t *four) {
  int32_t x;
  memcpy(&x, four, 4);
  return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(x));
}
INLINE vi vp_join(vp coarse, vp fine) { return _mm512_add_epi32(_mm512_slli_epi32(coarse, 7), fine); }

INLINE vh vh_load(const int16_t *p) { return _mm512_loadu_si512(p); }
INLINE vh vh_load_i8(const void *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256(p)); }
INLINE vi vh_dot(vi sum, vh a, vh b) { return _mm512_dpwssd_epi32(sum, a, b); }
