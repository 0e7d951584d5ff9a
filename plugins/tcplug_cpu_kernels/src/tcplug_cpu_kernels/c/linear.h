/* Products of packed rows with rows of activations, four or sixteen outputs at a time. Written over the lanes of simd_*.h.

   A lane sums the same elements in the same order whatever the number of rows in a tile, so a row's bits don't depend
   on it. Integer sums are exact. */

#define MOST_ROWS 8

/* Bytes that a stream of weights is asked for ahead of its use, since the hardware's own prefetch stops at each row; into
   the second-level cache, because the first one's few pending misses would bound the memory's speed. */
#define AHEAD 16384
#define PREFETCH(P) __builtin_prefetch((P) + AHEAD, 0, 2)

/* Four packed rows; past the last output they repeat it, and what comes of them is dropped. */
typedef struct {
  const uint8_t *data[4];
} panel;

INLINE panel panel_at(const tc_matrix *m, int64_t begin, int64_t row_bytes) {
  panel p;
  for (int o = 0; o < 4; o++) {
    int64_t row = begin + o < m->out ? begin + o : m->out - 1;
    p.data[o] = m->data + row * row_bytes;
  }
  return p;
}

INLINE void finish(const tc_matrix *m, int64_t begin, int64_t row, vf sums, const tc_sink *sink) {
  float four[4];
  int64_t count = m->out - begin < 4 ? m->out - begin : 4;
  vf_fold(sums, four);
  for (int64_t o = 0; o < count; o++) {
    float y = four[o], scale;
    if (m->format == TC_INT8) {
      memcpy(&scale, m->scale + 4 * (begin + o), 4);
      y *= scale;
    }
    if (m->bias) y += m->bias[begin + o];
    if (sink->add) y += sink->add[row * sink->add_stride + begin + o];
    sink->y[row * sink->stride + begin + o] = y;
  }
}

/* ---- fp32, fp16, bf16 weights: fp32 throughout */

INLINE vf weights_at(const uint8_t *row, int64_t i, const int format) {
  if (format == TC_FP16) return vf_load_f16(row + 2 * i);
  if (format == TC_BF16) return vf_load_bf16(row + 2 * i);
  return vf_load(row + 4 * i);
}

INLINE vf last_weights(const uint8_t *row, int64_t i, int64_t count, const int format) {
  const int size = format == TC_FP32 ? 4 : 2;
  uint8_t padded[64] = {0};
  memcpy(padded, row + size * i, (size_t)(size * count));
  return weights_at(padded, 0, format);
}

INLINE void float_tile(const int R, const int format, const tc_matrix *m, const panel *p, int64_t begin,
                       const tc_act *a, int64_t row, const tc_sink *sink) {
  const int size = format == TC_FP32 ? 4 : 2;
  vf sum[MOST_ROWS][4];
  int64_t whole_part = m->in & ~(int64_t)15, left = m->in - whole_part;
  UNROLL for (int r = 0; r < R; r++) UNROLL for (int o = 0; o < 4; o++) sum[r][o] = vf_zero();
  for (int64_t i = 0; i < whole_part; i += 16) {
    vf w[4];
    UNROLL for (int o = 0; o < 4; o++) {
      PREFETCH(p->data[o] + size * i);
      w[o] = weights_at(p->data[o], i, format);
    }
    UNROLL for (int r = 0; r < R; r++) {
      vf x = vf_load(a->x + (row + r) * a->stride + i);
      UNROLL for (int o = 0; o < 4; o++) sum[r][o] = vf_fma(w[o], x, sum[r][o]);
    }
  }
  if (left) {
    for (int r = 0; r < R; r++) {
      vf x = vf_load_some(a->x + (row + r) * a->stride + whole_part, left);
      for (int o = 0; o < 4; o++)
        sum[r][o] = vf_fma(last_weights(p->data[o], whole_part, left, format), x, sum[r][o]);
    }
  }
  UNROLL for (int r = 0; r < R; r++)
    finish(m, begin, row + r, vf_reduce4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]), sink);
}

/* ---- int8 weights: int16 activations, a scale per 128 */

INLINE const uint8_t *bytes_at(const uint8_t *row, int64_t at, int64_t have, int64_t want, uint8_t *room) {
  if (have >= want) return row + at;
  memset(room, 0, (size_t)want);
  memcpy(room, row + at, (size_t)have);
  return room;
}

INLINE void int8_tile(const int R, const tc_matrix *m, const panel *p, int64_t begin, const tc_act *a, int64_t row,
                      const tc_sink *sink) {
  vf sum[MOST_ROWS];
  UNROLL for (int r = 0; r < R; r++) sum[r] = vf_zero();
  for (int64_t b = 0; b * TC_BLOCK < m->in; b++) {
    uint8_t room[4][TC_BLOCK];
    const uint8_t *from[4];
    vi dot[MOST_ROWS][4];
    UNROLL for (int o = 0; o < 4; o++) {
      PREFETCH(p->data[o] + b * TC_BLOCK);
      PREFETCH(p->data[o] + b * TC_BLOCK + 64);
      from[o] = bytes_at(p->data[o], b * TC_BLOCK, m->in - b * TC_BLOCK, TC_BLOCK, room[o]);
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int o = 0; o < 4; o++) dot[r][o] = vi_zero();
    UNROLL for (int c = 0; c < TC_BLOCK; c += 32) {
      vh w[4];
      UNROLL for (int o = 0; o < 4; o++) w[o] = vh_load_i8(from[o] + c);
      UNROLL for (int r = 0; r < R; r++) {
        vh x = vh_load(a->q16[(row + r) * a->blocks + b].value + c);
        UNROLL for (int o = 0; o < 4; o++) dot[r][o] = vh_dot(dot[r][o], w[o], x);
      }
    }
    UNROLL for (int r = 0; r < R; r++) {
      vi four = vi_reduce4(dot[r][0], dot[r][1], dot[r][2], dot[r][3]);
      sum[r] = vf_fma(vf_from_vi(four), vf_expand4(a->q16[(row + r) * a->blocks + b].scale), sum[r]);
    }
  }
  UNROLL for (int r = 0; r < R; r++) finish(m, begin, row + r, sum[r], sink);
}

/* ---- int4, and bytes with a scale per 32, in panels of 16 outputs that have a lane each: activations in two int8
   parts, a scale per 32 */

INLINE void finish_panel(const tc_matrix *m, int64_t begin, int64_t row, vf sums, const tc_sink *sink) {
  float all[TC_PANEL], *y = sink->y + row * sink->stride + begin;
  int64_t count = m->out - begin < TC_PANEL ? m->out - begin : TC_PANEL;
  vf_store(all, sums);
  for (int64_t o = 0; o < count; o++) {
    if (m->bias) all[o] += m->bias[begin + o];
    if (sink->add) all[o] += sink->add[row * sink->add_stride + begin + o];
    y[o] = all[o];
  }
}

/* Of sub-block b: 64 bytes at a time, four of each output. */
INLINE void nibble_dots(const int R, const uint8_t *codes, const tc_act *a, int64_t row, int64_t b, vf *dot) {
  vp coarse[MOST_ROWS], fine[MOST_ROWS];
  UNROLL for (int r = 0; r < R; r++) coarse[r] = fine[r] = vp_zero();
  UNROLL for (int j = 0; j < 4; j++) {
    PREFETCH(codes + 64 * j);
    const vb both = vb_load(codes + 64 * j), low = vb_low(both), high = vb_high(both);
    UNROLL for (int r = 0; r < R; r++) {
      const tc_q8 *q = a->q8 + (row + r) * a->blocks + b / 4;
      const int64_t at = b % 4 * 32 + 4 * j;
      coarse[r] = vp_dot(vp_dot(coarse[r], low, q->coarse + at), high, q->coarse + at + 16);
      fine[r] = vp_dot(vp_dot(fine[r], low, q->fine + at), high, q->fine + at + 16);
    }
  }
  UNROLL for (int r = 0; r < R; r++) dot[r] = vf_from_vi(vp_join(coarse[r], fine[r]));
}

/* Bytes nibble by nibble, because products of whole ones would overflow without VNNI. */
INLINE void byte_dots(const int R, const uint8_t *codes, const tc_act *a, int64_t row, int64_t b, vf *dot) {
  vp coarse[MOST_ROWS][2], fine[MOST_ROWS][2];
  UNROLL for (int r = 0; r < R; r++) coarse[r][0] = coarse[r][1] = fine[r][0] = fine[r][1] = vp_zero();
  UNROLL for (int j = 0; j < 8; j++) {
    PREFETCH(codes + 64 * j);
    const vb both = vb_load(codes + 64 * j), part[2] = {vb_low(both), vb_high(both)};
    UNROLL for (int r = 0; r < R; r++) {
      const tc_q8 *q = a->q8 + (row + r) * a->blocks + b / 4;
      const int64_t at = b % 4 * 32 + 4 * j;
      UNROLL for (int n = 0; n < 2; n++) {
        coarse[r][n] = vp_dot(coarse[r][n], part[n], q->coarse + at);
        fine[r][n] = vp_dot(fine[r][n], part[n], q->fine + at);
      }
    }
  }
  UNROLL for (int r = 0; r < R; r++) {
    const vf low = vf_from_vi(vp_join(coarse[r][0], fine[r][0])), high = vf_from_vi(vp_join(coarse[r][1], fine[r][1]));
    dot[r] = vf_fma(high, vf_set1(16.0f), low);
  }
}

INLINE void panel_tile(const int R, const int format, const tc_matrix *m, int64_t begin, const tc_act *a, int64_t row,
                       const tc_sink *sink) {
  const int64_t sub_blocks = (m->in + 31) / 32, panel = begin / TC_PANEL;
  const int64_t bytes = (format == TC_BYTES ? 32 : 16) * TC_PANEL;
  const uint8_t *codes = m->data + panel * sub_blocks * bytes;
  const uint8_t *scales = m->scale + panel * m->groups * 2 * TC_PANEL;
  const uint8_t *minima = m->minimum + panel * m->groups * 2 * TC_PANEL;
  const vf zero_point = vf_set1(format == TC_BYTES ? -128.0f : -8.0f);
  vf sum[MOST_ROWS];
  UNROLL for (int r = 0; r < R; r++) sum[r] = vf_zero();
  for (int64_t b = 0; b < sub_blocks; b++) {
    vf dot[MOST_ROWS];
    const int64_t at = (m->span == 1 ? b : b / m->span) * 2 * TC_PANEL;
    const vf scale = vf_load_f16(scales + at);
    const vf minimum = format == TC_INT4_ASYM ? vf_load_f16(minima + at) : vf_mul(scale, zero_point);
    if (format == TC_BYTES) byte_dots(R, codes + b * bytes, a, row, b, dot);
    else nibble_dots(R, codes + b * bytes, a, row, b, dot);
    UNROLL for (int r = 0; r < R; r++) {
      const tc_q8 *q = a->q8 + (row + r) * a->blocks + b / 4;
      sum[r] = vf_fma(dot[r], vf_mul(scale, vf_set1(q->scale[b % 4])), sum[r]);
      sum[r] = vf_fma(minimum, vf_set1(q->sum[b % 4]), sum[r]);
    }
  }
  UNROLL for (int r = 0; r < R; r++) finish_panel(m, begin, row + r, sum[r], sink);
}

/* ---- all */

/* The switch makes the number of rows a constant in each tile; MOST, a constant too, leaves out what is never used. */
#define TILES(MOST, TILE)                                     \
  for (int64_t r = 0, some; r < rows; r += some) {            \
    some = rows - r < MOST ? rows - r : MOST;                 \
    if (some == 8 && MOST == 8) TILE(8);                      \
    else if (some >= 4 && MOST >= 4) some = 4, TILE(4);           \
    else if (some == 3 && MOST >= 3) TILE(3);                 \
    else if (some == 2) TILE(2);                              \
    else TILE(1);                                             \
  }

static void panel_rows(const tc_matrix *m, int64_t begin, int64_t end, const tc_act *a, int64_t rows,
                       const tc_sink *sink) {
#define PANEL_TILE(R) panel_tile(R, FORMAT, m, o, a, r, sink)
  for (int64_t o = begin; o < end; o += TC_PANEL) {
    switch (m->format) {
#define FORMAT TC_INT4_ASYM
      case TC_INT4_ASYM: TILES(ROWS_INT4, PANEL_TILE) break;
#undef FORMAT
#define FORMAT TC_INT4_SYM
      case TC_INT4_SYM: TILES(ROWS_INT4, PANEL_TILE) break;
#undef FORMAT
#define FORMAT TC_BYTES
      default: TILES(ROWS_INT8, PANEL_TILE) break;
#undef FORMAT
    }
  }
}

static void linear_rows(const tc_matrix *m, int64_t begin, int64_t end, const tc_act *a, int64_t rows,
                        const tc_sink *sink) {
  const int64_t widths[] = {4 * m->in, 2 * m->in, 2 * m->in, m->in};
  if (m->format > TC_INT8) {
    panel_rows(m, begin, end, a, rows, sink);
    return;
  }
  for (int64_t o = begin; o < end; o += 4) {
    panel p = panel_at(m, o, widths[m->format]);
    switch (m->format) {
#define FLOAT_TILE(R) float_tile(R, FORMAT, m, &p, o, a, r, sink)
#define INT8_TILE(R) int8_tile(R, m, &p, o, a, r, sink)
#define FORMAT TC_FP32
      case TC_FP32: TILES(ROWS_FLOAT, FLOAT_TILE) break;
#undef FORMAT
#define FORMAT TC_FP16
      case TC_FP16: TILES(ROWS_FLOAT, FLOAT_TILE) break;
#undef FORMAT
#define FORMAT TC_BF16
      case TC_BF16: TILES(ROWS_FLOAT, FLOAT_TILE) break;
      default: TILES(ROWS_INT8, INT8_TILE) break;
    }
  }
}
