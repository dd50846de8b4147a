/** What the metrics have in common: buckets, and a limit for labels whose values come from outside. */

export const intakeSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
export const workSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1_800];

const mostLabelValues = 50;

/**
 * Passes the first values of a label through and replaces all others by "other": it limits their number, not their
 * content.
 */
export function boundLabel(): (value: string) => string {
  const seen = new Set<string>();
  return (value) => {
    if (seen.size < mostLabelValues) seen.add(value);
    return seen.has(value) ? value : "other";
  };
}
