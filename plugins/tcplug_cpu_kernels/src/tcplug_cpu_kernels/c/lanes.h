/* The row operations of one instruction set: the file that includes this defined INLINE, the rows per tile, TABLE, and
   included its lanes. */
#include "rows.h"

#include "linear.h"

#include "embed.h"

#include "attend.h"

const tc_isa TABLE = {linear_rows, embed_row, quantize8, quantize16, norm_row, gate_row, attend_one};
