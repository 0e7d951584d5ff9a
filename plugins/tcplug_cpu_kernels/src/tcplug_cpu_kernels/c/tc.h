/* What the shared library offers to Python, and the structs that both sides lay out alike.

   Activations and results are fp32, row-major and contiguous. Nothing here keeps a pointer after it returns, allocates,
   or depends on the number of threads or rows: the bits of a row are the same however many rows a call has. */
#ifndef TC_H
#define TC_H

#include <stdint.h>

#if defined(__GNUC__)
#define TC_API __attribute__((visibility("default")))
#else
#define TC_API
#endif

enum { TC_FP32, TC_FP16, TC_BF16, TC_INT8, TC_INT4_ASYM, TC_INT4_SYM, TC_BYTES };

/* A matrix [out, in]; pointers may have any alignment. `span` is the number of 32-element sub-blocks per quant group,
   `groups` their number per row. Floats and int8 lie row by row, the others in panels of 16 outputs, the last one filled
   up: first the codes of a sub-block, four bytes of each output in turn, then halves [panel][groups][16]. Of int4's 16
   bytes, byte j has element j in its low nibble and element j + 16 in its high one; TC_BYTES are unsigned, around 128. */
typedef struct {
  const uint8_t *data;
  const uint8_t *scale;
  const uint8_t *minimum;
  const float *bias; /* [out], or NULL */
  int64_t out, in, groups;
  int32_t format, span;
} tc_matrix;

/* A pre-norm decoder block. */
typedef struct {
  tc_matrix q, k, v, o, gate, up, down;
  const float *attention_norm, *mlp_norm; /* [hidden] */
  float attention_eps, mlp_eps;
  float scale;
  int32_t heads, kv_heads, head_dim, rotary_dim; /* rotary_dim 0: no rotation */
  int32_t padding_;
} tc_block;

/* A step's sequences, as truecluster.nn's Batch has them. */
typedef struct {
  const int32_t *rows;  /* [row_count, 4]: first token, tokens, position, slot */
  const int32_t *pages; /* [row_count, width] */
  const float *cos, *sin; /* [n, rotary_dim / 2] */
  int32_t row_count, width;
} tc_step;

/* One layer's cache, as truecluster.nn's PagedState has it. */
typedef struct {
  float *keys, *values; /* [page_count, 32, kv_heads, head_dim] */
  int32_t page_count;
  int32_t sliding; /* latest tokens seen, 0 for all */
} tc_cache;

/* The instruction set in use: 0 plain C, 1 AVX2, 2 AVX-512 with VNNI. */
TC_API int tc_level(void);
/* Use `level`, or the best below it that this machine has; returns what is used. Not for use beside a running call. */
TC_API int tc_use(int level);
TC_API int tc_has_threads(void);

/* Bytes of scratch that the call of the same name needs for n rows; stops growing at a fixed number of rows. */
TC_API int64_t tc_linear_scratch(const tc_matrix *m, int64_t n);
TC_API int64_t tc_block_scratch(const tc_block *b, int64_t n);

/* y[n, out] = x[n, in] @ w.T + bias */
TC_API void tc_linear(const tc_matrix *m, const float *x, float *y, int64_t n, void *scratch, int threads);
/* y[n, in] = rows `ids` of m. 0, or -1 where an id is none of them; then nothing was written. */
TC_API int tc_embed(const tc_matrix *m, const int32_t *ids, float *y, int64_t n, int threads);
/* y = x / sqrt(mean(x^2) + eps) * weight */
TC_API void tc_norm(const float *weight, float eps, const float *x, float *y, int64_t n, int64_t width, int threads);
/* Append k and v [n, kv_heads, head_dim] to the cache, then attend: q, y [n, heads, head_dim]. 0, or -1 where the step
   points outside the batch or the cache; then nothing was written. */
TC_API int tc_attend(const tc_step *s, const tc_cache *c, const float *q, const float *k, const float *v, float *y,
                     int64_t n, int32_t heads, int32_t kv_heads, int32_t head_dim, float scale, int threads);
/* A whole decoder block, out[n, hidden] from hidden[n, hidden], which may not overlap. Returns as tc_attend. */
TC_API int tc_block_forward(const tc_block *b, const tc_step *s, const tc_cache *c, const float *hidden, float *out,
                            int64_t n, void *scratch, int threads);

#endif
