/**
 * The current refs of remotes. Git is asked only if no earlier answer is recent enough, and this is the only place that
 * decides it: callers state what they need as a Freshness.
 */
import { RemoteBusyError } from "../errors.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { createShare } from "../kit/share.ts";
import type { Freshness, Heads } from "../model.ts";
import type { Waiting } from "./mirror-fetch.ts";
import type { Reader, Remote } from "./remote.ts";
import type { Slowness } from "./slowness.ts";

export interface HeadsDeps {
  readonly readerOf: (remote: Remote) => Promise<Reader>;
  /** One `ls-remote`. */
  readonly list: (remote: Remote, waiting: Waiting) => Promise<Heads>;
  /** One fetch, which also shows the refs; `undefined` if it cannot, for example because there is no mirror yet. */
  readonly fetch: (remote: Remote, waiting: Waiting) => Promise<Heads | undefined>;
  readonly slowness: Pick<Slowness, "wait">;
  /** The longest time that an answer is kept, in milliseconds. */
  readonly maxAgeMs: number;
  /** Called whenever the remote is asked for a reader. What it returns takes the answer. */
  readonly onAsk?: ((reader: string) => (answer: Heads) => void) | undefined;
}

/** Throws RemoteBusyError instead of waiting for another caller's slow conversation, if the caller `leaves`. */
export type FindHeads = (remote: Remote, freshness: Freshness | undefined, waiting: Partial<Waiting>) => Promise<Heads>;

const mostReaders = 1_000;

/**
 * Of the answers to one reader only the one that was requested last is kept. So no caller gets an older answer than a
 * previous caller, whatever each of them requires.
 */
export function createFindHeads({ readerOf, list, fetch, slowness, maxAgeMs, onAsk }: HeadsDeps): FindHeads {
  const answers = createShare<Heads>({ maxAgeMs, entries: mostReaders });
  /** The moves that were known when the kept answer was requested, by reader. */
  const moves = createBoundedMap<true>({ entries: 4 * mostReaders });

  function get(
    reader: string,
    { since, maxAgeMs: oldest }: Freshness,
    ask: (signal: AbortSignal, hasMoved: boolean) => Promise<Heads>,
    signal: AbortSignal | undefined,
  ): Promise<Heads> {
    signal?.throwIfAborted(); // or the move would count as answered
    const move = `${reader} ${since}`;
    const hasMoved = since !== undefined && moves.get(move) === undefined;
    if (hasMoved) moves.set(move, true);
    return answers.get(reader, (shared) => ask(shared, hasMoved), { signal, maxAgeMs: hasMoved ? 0 : oldest });
  }

  return async function findHeads(remote, freshness = askNow, { signal, leaves }) {
    const { id } = await readerOf(remote);
    let isMine = false;
    const ask = async (shared: AbortSignal, hasMoved: boolean): Promise<Heads> => {
      isMine = true;
      const asking = { signal: shared, leaves };
      // The refs have most likely changed: listing them first would cost a second conversation.
      const take = onAsk?.(id);
      const fetched = hasMoved ? await fetch(remote, asking) : undefined;
      const heads = fetched ?? (await list(remote, asking));
      take?.(heads);
      return heads;
    };
    while (!leaves) {
      try {
        return await get(id, freshness, ask, signal);
      } catch (error) {
        // Another caller started the call and left because the remote is slow. This one's own call does not leave.
        if (isMine || !(error instanceof RemoteBusyError)) throw error;
      }
    }
    return slowness.wait(remote, (leave) => {
      const gone = new AbortController();
      const answer = get(id, freshness, ask, signal ? AbortSignal.any([signal, gone.signal]) : gone.signal);
      const go = (): void => (isMine ? undefined : gone.abort(leave.reason)); // the caller whose call is shared stays
      if (leave.aborted) go();
      leave.addEventListener("abort", go, { once: true });
      return answer;
    });
  };
}

const askNow: Freshness = { maxAgeMs: 0 };
