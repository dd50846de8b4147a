/**
 * Returns the result of `work`; or, if it takes longer than `ms`, that of `late`, which may also throw. What `work`
 * does afterwards is ignored, even if it fails. With `ref: false`, the timer does not keep the process alive.
 */
export async function within<T, L>(
  ms: number,
  work: Promise<T>,
  late: () => L,
  { ref = true }: { readonly ref?: boolean } = {},
): Promise<T | L> {
  const { promise: timeUp, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  if (!ref) timer.unref();
  try {
    return await Promise.race([work, timeUp.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}

/** Aborts with the signal, and after `ms` at the latest. The timer does not keep the process alive. */
export function withTimeout(ms: number, signal: AbortSignal | undefined): AbortSignal {
  const timeout = AbortSignal.timeout(ms);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}

/** Returns the result of `work`, or rejects with the signal's reason as soon as it aborts; `work` itself goes on. */
export async function beforeAbort<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const leave = (): void => reject(signal?.reason as Error);
  if (signal?.aborted) leave();
  signal?.addEventListener("abort", leave, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal?.removeEventListener("abort", leave);
  }
}
