/* Single rows of a matrix as floats, bit for bit as their format unpacks them. Written over the lanes of simd_*.h. */

INLINE void float_row(const int format, const tc_matrix *m, int64_t row, float *y) {
  const uint8_t *weights = m->data + row * m->in * (format == TC_FP32 ? 4 : 2);
  int64_t whole_part = m->in & ~(int64_t)15, left = m->in - whole_part;
  for (int64_t i = 0; i < whole_part; i += 16) vf_store(y + i, weights_at(weights, i, format));
  if (left) vf_store_some(y + whole_part, last_weights(weights, whole_part, left, format), left);
}

static void int8_row(const tc_matrix *m, int64_t row, float *y) {
  const int8_t *weights = (const int8_t *)m->data + row * m->in;
  float scale;
  memcpy(&scale, m->scale + 4 * row, 4);
  for (int64_t i = 0; i < m->in; i++) y[i] = (float)weights[i] * scale;
}

/* The code of element i of a sub-block, whose four-byte pieces of the row lie 64 bytes apart. */
INLINE int code_at(const int format, const uint8_t *codes, int i) {
  const int byte = format == TC_BYTES ? i : i % 16, code = codes[byte / 4 * 64 + byte % 4];
  return format == TC_BYTES ? code : i < 16 ? code & 15 : code >> 4;
}

INLINE void panel_row(const int format, const tc_matrix *m, int64_t row, float *y) {
  const int64_t sub_blocks = (m->in + 31) / 32, panel = row / TC_PANEL, lane = row % TC_PANEL;
  const int64_t bytes = (format == TC_BYTES ? 32 : 16) * TC_PANEL;
  const int zero_point = format == TC_BYTES ? 128 : format == TC_INT4_SYM ? 8 : 0;
  for (int64_t b = 0; b < sub_blocks; b++) {
    const uint8_t *codes = m->data + (panel * sub_blocks + b) * bytes + 4 * lane;
    const int64_t at = (panel * m->groups + b / m->span) * 2 * TC_PANEL;
    const int64_t count = m->in - 32 * b < 32 ? m->in - 32 * b : 32;
    float scale[TC_PANEL], minimum[TC_PANEL] = {0};
    vf_store(scale, vf_load_f16(m->scale + at));
    if (format == TC_INT4_ASYM) vf_store(minimum, vf_load_f16(m->minimum + at));
    for (int i = 0; i < count; i++) {
      float value = (float)(code_at(format, codes, i) - zero_point) * scale[lane];
      y[32 * b + i] = format == TC_INT4_ASYM ? value + minimum[lane] : value;
    }
  }
}

static void embed_row(const tc_matrix *m, int64_t row, float *y) {
  switch (m->format) {
    case TC_FP32: float_row(TC_FP32, m, row, y); break;
    case TC_FP16: float_row(TC_FP16, m, row, y); break;
    case TC_BF16: float_row(TC_BF16, m, row, y); break;
    case TC_INT8: int8_row(m, row, y); break;
    case TC_INT4_ASYM: panel_row(TC_INT4_ASYM, m, row, y); break;
    case TC_INT4_SYM: panel_row(TC_INT4_SYM, m, row, y); break;
    default: panel_row(TC_BYTES, m, row, y);
  }
}
