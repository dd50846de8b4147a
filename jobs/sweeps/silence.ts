/** For how long a sweep requests nothing more for what stays behind its ref. Pure. */

/** What stays behind is requested at least this often, in milliseconds. */
export const longestSilenceMs = 3_600_000;

/** Doubles with each request for the same position of the ref. Half a period early, so that the look one period later counts. */
export function silenceMs(times: number, periodMs: number): number {
  return Math.min(periodMs * (2 ** times - 0.5), longestSilenceMs);
}
