/** A held Lease: renewed until it is released or lost. */
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Held } from "../model.ts";
import { type LeaseObject, type LeaseStore, microTime } from "./lease-object.ts";

export interface HoldDeps {
  readonly store: LeaseStore;
  /** As it was written when it was acquired. */
  readonly lease: LeaseObject;
  readonly durationMs: number;
  readonly log: Logger;
  readonly now: () => number;
  /** When the request was sent that acquired the Lease. */
  readonly startedAt: number;
  /** Receives the Lease as it was released, so that it can be acquired again without reading it. */
  readonly onReleased: (lease: LeaseObject) => void;
}

/**
 * Renews every quarter of the duration, and gives up after two thirds: in the last third the holder ends its work,
 * before another process can acquire the Lease.
 */
export function startHold({ store, durationMs, log, now, startedAt, onReleased, ...taken }: HoldDeps): Held {
  const lost = new AbortController();
  const callbacks = new Set<(renewedAt: number) => void>();
  const holder = taken.lease.spec?.holderIdentity;
  const id = `${taken.lease.metadata.namespace}/${taken.lease.metadata.name}`;
  let lease = taken.lease;
  let ended = false;
  let renewal: Promise<void> = Promise.resolve();
  let renewedAt = startedAt;
  let deadline = setTimeout(giveUp, durationMs * (2 / 3) - (now() - startedAt));
  let next = setTimeout(tick, durationMs / 4);

  function giveUp(): void {
    lose("it could not be renewed in time");
  }

  function lose(why: string): void {
    if (ended) return;
    end();
    log.warn({ lease: id }, `lease lost: ${why}`);
    lost.abort(new Error(`lost the lease ${id}: ${why}`));
  }

  function end(): void {
    ended = true;
    clearTimeout(deadline);
    clearTimeout(next);
  }

  function tick(): void {
    renewal = renew().catch((error: unknown) => log.error({ err: error }, "lease renewal failed unexpectedly"));
  }

  async function renew(): Promise<void> {
    const askedAt = now();
    // The process may have slept: after a write now, a hold that was lost in between would look like an unbroken one.
    if (askedAt - renewedAt > durationMs * (2 / 3)) return giveUp();
    let waitMs = durationMs / 4;
    try {
      lease = await store.write({ ...lease, spec: { ...lease.spec, renewTime: microTime() } });
      renewed(askedAt);
    } catch (error) {
      const status = error instanceof ApiError ? error.status : 0;
      log.debug({ lease: id, err: error }, "could not renew the lease");
      if (status === 404) return lose("it was deleted");
      waitMs = Math.min(1_000, durationMs / 20);
      const why = status === 409 ? await whoElse() : undefined;
      if (why !== undefined) return lose(why);
    }
    if (!ended) next = setTimeout(tick, waitMs);
  }

  function renewed(askedAt: number): void {
    if (ended) return;
    renewedAt = askedAt;
    clearTimeout(deadline);
    deadline = setTimeout(giveUp, durationMs * (2 / 3) - (now() - askedAt));
    for (const callback of callbacks) callback(renewedAt);
  }

  /**
   * Handles a conflict. The other writer may be ourselves, if the response to an earlier write was lost, or the new
   * holder. Returns why the Lease is no longer ours, or `undefined` if it still is or that is unknown.
   */
  async function whoElse(): Promise<string | undefined> {
    const found = await store.read().catch(() => lease);
    if (found === undefined) return "it was deleted";
    if (found.spec?.holderIdentity !== holder) return "another process holds it now";
    lease = found;
    return undefined;
  }

  return {
    lost: lost.signal,
    onRenewed(callback) {
      callbacks.add(callback);
      // Work that starts now may run until two thirds of the duration after `renewedAt`, unless there is another
      // renewal.
      if (!ended && now() - renewedAt < durationMs / 3) callback(renewedAt);
      return () => callbacks.delete(callback);
    },
    async release() {
      if (ended) return;
      end();
      await renewal; // a concurrent renewal would conflict with the release
      if (lost.signal.aborted) return;
      for (let attempt = 0; attempt < 3 && !lost.signal.aborted; attempt++) {
        try {
          const left = { ...lease.spec, holderIdentity: "", renewTime: microTime() };
          onReleased(await store.write({ ...lease, spec: left }));
          return;
        } catch (error) {
          const status = error instanceof ApiError ? error.status : 0;
          if (status === 404) return;
          if (status === 409 && (await whoElse()) !== undefined) return;
          if (attempt === 2) log.warn({ lease: id, err: error }, "could not release the lease; it will expire");
        }
      }
    },
  };
}
