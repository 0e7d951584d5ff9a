/* Sixteen lanes in pairs of AVX2 registers. The order of every sum is the one that simd_plain.h spells out. */
#include <immintrin.h>

typedef struct { __m256 x, y; } vf;
typedef struct { __m256i x, y; } vi;
typedef vi vb;
typedef vi vh;
typedef vi vp;

#define VF(X, Y) ((vf){(X), (Y)})
#define VI(X, Y) ((vi){(X), (Y)})

INLINE vf vf_set1(float a) { return VF(_mm256_set1_ps(a), _mm256_set1_ps(a)); }
INLINE vf vf_load(const void *p) { return VF(_mm256_loadu_ps(p), _mm256_loadu_ps((const float *)p + 8)); }
INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a.x), _mm256_storeu_ps(p + 8, a.y); }
INLINE __m128i half(const void *p, int i) { return _mm_loadu_si128((const __m128i *)p + i); }
INLINE vf vf_load_f16(const void *p) { return VF(_mm256_cvtph_ps(half(p, 0)), _mm256_cvtph_ps(half(p, 1))); }
INLINE __m256 widen_bf16(__m128i a) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(a), 16));
}
INLINE vf vf_load_bf16(const void *p) { return VF(widen_bf16(half(p, 0)), widen_bf16(half(p, 1))); }
INLINE vf vf_add(vf a, vf b) { return VF(_mm256_add_ps(a.x, b.x), _mm256_add_ps(a.y, b.y)); }
INLINE vf vf_sub(vf a, vf b) { return VF(_mm256_sub_ps(a.x, b.x), _mm256_sub_ps(a.y, b.y)); }
INLINE vf vf_mul(vf a, vf b) { return VF(_mm256_mul_ps(a.x, b.x), _mm256_mul_ps(a.y, b.y)); }
INLINE vf vf_div(vf a, vf b) { return VF(_mm256_div_ps(a.x, b.x), _mm256_div_ps(a.y, b.y)); }
INLINE vf vf_fma(vf a, vf b, vf c) { return VF(_mm256_fmadd_ps(a.x, b.x, c.x), _mm256_fmadd_ps(a.y, b.y, c.y)); }
INLINE vf vf_max(vf a, vf b) { return VF(_mm256_max_ps(a.x, b.x), _mm256_max_ps(a.y, b.y)); }
INLINE vf vf_min(vf a, vf b) { return VF(_mm256_min_ps(a.x, b.x), _mm256_min_ps(a.y, b.y)); }
INLINE __m256 abs8(__m256 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
INLINE vf vf_abs(vf a) { return VF(abs8(a.x), abs8(a.y)); }
INLINE __m256 round8(__m256 a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE vf vf_round(vf a) { return VF(round8(a.x), round8(a.y)); }
INLINE __m256 pow2_8(__m256 a) {
  __m256i n = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
}
INLINE vf vf_pow2(vf a) { return VF(pow2_8(a.x), pow2_8(a.y)); }
INLINE vf vf_from_vi(vi a) { return VF(_mm256_cvtepi32_ps(a.x), _mm256_cvtepi32_ps(a.y)); }
INLINE vf vf_expand4(const float *p) {
  __m256 all = _mm256_broadcast_ps((const __m128 *)p);
  return VF(_mm256_permutevar_ps(all, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1)),
            _mm256_permutevar_ps(all, _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3)));
}

INLINE __m256 reduce8(__m256 a, __m256 b, __m256 c, __m256 d) {
  __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  __m256d lo = _mm256_unpacklo_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
  __m256d hi = _mm256_unpackhi_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
  return _mm256_add_ps(_mm256_castpd_ps(lo), _mm256_castpd_ps(hi));
}
INLINE vf vf_reduce4(vf a, vf b, vf c, vf d) {
  return VF(reduce8(a.x, b.x, c.x, d.x), reduce8(a.y, b.y, c.y, d.y));
}
INLINE __m128 fold8(__m256 a) { return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)); }
INLINE void vf_fold(vf a, float *p) { _mm_storeu_ps(p, _mm_add_ps(fold8(a.x), fold8(a.y))); }

INLINE vi vi_zero(void) { return VI(_mm256_setzero_si256(), _mm256_setzero_si256()); }
INLINE __m256i reduce8i(__m256i a, __m256i b, __m256i c, __m256i d) {
  __m256i ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  __m256i cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
  return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}
INLINE vi vi_reduce4(vi a, vi b, vi c, vi d) {
  return VI(reduce8i(a.x, b.x, c.x, d.x), reduce8i(a.y, b.y, c.y, d.y));
}
INLINE __m256i narrow16(vf a) {
  __m256i both = _mm256_packs_epi32(_mm256_cvtps_epi32(a.x), _mm256_cvtps_epi32(a.y));
  return _mm256_permute4x64_epi64(both, 0xd8);
}
INLINE void vf_store_i16(int16_t *p, vf a) { _mm256_storeu_si256((void *)p, narrow16(a)); }
INLINE void vf_store_i8(int8_t *p, vf a) {
  __m256i wide = narrow16(a);
  __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  _mm_storeu_si128((void *)p, bytes);
}

INLINE __m256i load8(const void *p, int i) { return _mm256_loadu_si256((const __m256i *)p + i); }
INLINE vb vb_load(const void *p) { return VI(load8(p, 0), load8(p, 1)); }
INLINE __m256i nibbles(__m256i a) { return _mm256_and_si256(a, _mm256_set1_epi8(15)); }
INLINE vb vb_low(vb a) { return VI(nibbles(a.x), nibbles(a.y)); }
INLINE vb vb_high(vb a) { return VI(nibbles(_mm256_srli_epi16(a.x, 4)), nibbles(_mm256_srli_epi16(a.y, 4))); }
INLINE vp vp_zero(void) { return vi_zero(); }
/* In int16: codes are at most 15 and activations at most 127, so the sixteen products of a lane stay below 32,767. */
INLINE vp vp_dot(vp sum, vb codes, const int8_t *four) {
  int32_t bytes;
  memcpy(&bytes, four, 4);
  const __m256i x = _mm256_set1_epi32(bytes);
  return VI(_mm256_add_epi16(sum.x, _mm256_maddubs_epi16(codes.x, x)),
            _mm256_add_epi16(sum.y, _mm256_maddubs_epi16(codes.y, x)));
}
INLINE __m256i join8(__m256i coarse, __m256i fine) {
  const __m256i one = _mm256_set1_epi16(1), large = _mm256_set1_epi16(128);
  return _mm256_add_epi32(_mm256_madd_epi16(coarse, large), _mm256_madd_epi16(fine, one));
}
INLINE vi vp_join(vp coarse, vp fine) { return VI(join8(coarse.x, fine.x), join8(coarse.y, fine.y)); }

INLINE vh vh_load(const int16_t *p) { return VI(load8(p, 0), load8(p, 1)); }
INLINE vh vh_load_i8(const void *p) { return VI(_mm256_cvtepi8_epi16(half(p, 0)), _mm256_cvtepi8_epi16(half(p, 1))); }
INLINE vi vh_dot(vi sum, vh a, vh b) {
  return VI(_mm256_add_epi32(sum.x, _mm256_madd_epi16(a.x, b.x)), _mm256_add_epi32(sum.y, _mm256_madd_epi16(a.y, b.y)));
}
