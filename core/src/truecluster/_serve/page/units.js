// Numbers for people; a unit never stands in a line of its own.

export const GAP = "\u00a0";

const SIZES = ["B", "kB", "MB", "GB", "TB"];

/** 1,234,567 → "1.2 MB"; decimal, as everywhere in TrueCluster. */
export function bytes(count) {
  let size = count, unit = 0;
  while (size >= 999.5 && unit < SIZES.length - 1) [size, unit] = [size / 1000, unit + 1];
  return `${unit && size < 99.5 ? size.toFixed(1) : size.toFixed(0)}${GAP}${SIZES[unit]}`;
}

/** 1234567 → "1,234,567". */
export const number = (count) => count.toLocaleString("en");

/** 4000 s → "1 h 6 min". */
export function duration(seconds) {
  if (seconds < 59.5) return `${Math.round(seconds)}${GAP}s`;
  const minutes = Math.max(1, Math.floor(seconds / 60)), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (days) return `${days}${GAP}d ${hours % 24}${GAP}h`;
  return hours ? `${hours}${GAP}h ${minutes % 60}${GAP}min` : `${minutes}${GAP}min`;
}
