// Figures in words, as the command line has them.

/** @param {number | null | undefined} seconds */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h`;
  return `${Math.floor(whole / 86400)}d`;
}

/** @param {number | null | undefined} bytes */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  let value = bytes;
  for (const unit of ["B", "K", "M", "G", "T"]) {
    if (value < 1000 || unit === "T") return unit === "B" ? `${Math.round(value)}B` : `${value < 10 ? value.toFixed(1) : Math.round(value)}${unit}`;
    value /= 1024;
  }
  return "";
}

/** @param {number | null | undefined} value */
export function percent(value) {
  return value === null || value === undefined ? "" : `${Math.round(value)}%`;
}

/** @param {number | null | undefined} value */
export function count(value) {
  if (value === null || value === undefined) return "";
  if (value < 1000) return String(Math.round(value));
  if (value < 1e6) return `${Math.round(value / 1000)}k`;
  return `${(value / 1e6).toFixed(1)}M`;
}

/** @param {number | null | undefined} dollars */
export function money(dollars) {
  return dollars === null || dollars === undefined ? "" : `$${dollars.toFixed(2)}`;
}
