/**
 * Caches lists that an account is not allowed to read. kluctl lists every kind that the cluster knows, whatever its
 * account may read: most requests of a diff are forbidden, and nearly always were a moment before.
 */

/** Keyed by the URL as the client sent it, which must have been permitted before. */
export interface RefusedLists {
  find(account: string, url: string): Buffer | undefined;
  remember(account: string, url: string, answer: Buffer): void;
  /** The account was allowed this list: forget all forbidden lists of the same path. */
  granted(account: string, url: string): void;
}

interface Remembered {
  readonly answer: Buffer;
  readonly at: number;
}

interface Path {
  readonly byUrl: Map<string, Remembered>;
  /** The answer for any label selector. */
  forAny?: Remembered | undefined;
}

/** Maximum delay until a newly granted permission takes effect. */
const rememberedMs = 30_000;
/** Limit of all accounts and paths together: a project may send any number of different queries. */
const mostRemembered = 5_000;
const longestUrl = 1_000;
const longestAnswer = 4_096;
/**
 * Number of different selectors that must be forbidden with the same words before it is assumed that the selector does
 * not matter. Each deployment uses a label selector of its own. RBAC ignores selectors and rejects all of them with the
 * same message, but another authorizer may evaluate them (Kubernetes 1.31 and newer).
 */
const provenBy = 3;

export function createRefusedLists(now: () => number): RefusedLists {
  const paths = new Map<string, Path>();
  let remembered = 0;

  const isFresh = (one: Remembered | undefined): one is Remembered =>
    one !== undefined && now() - one.at < rememberedMs;

  return {
    find(account, url) {
      const { path, isLabelled } = split(url);
      const known = paths.get(keyOf(account, path));
      if (known === undefined) return undefined;
      return [known.byUrl.get(url), isLabelled ? known.forAny : undefined].find(isFresh)?.answer;
    },

    remember(account, url, answer) {
      if (answer.length > longestAnswer || url.length > longestUrl) return;
      if (remembered >= mostRemembered) {
        paths.clear();
        remembered = 0;
      }
      const { path, isLabelled } = split(url);
      const key = keyOf(account, path);
      const known: Path = paths.get(key) ?? { byUrl: new Map() };
      paths.set(key, known);
      const refused = { answer, at: now() };
      if (!known.byUrl.has(url)) remembered++;
      known.byUrl.set(url, refused);
      if (!isLabelled) return;
      const alike = [...known.byUrl].filter(
        ([other, one]) => split(other).isLabelled && isFresh(one) && one.answer.equals(answer),
      );
      if (alike.length >= provenBy) known.forAny = refused;
    },

    granted(account, url) {
      const key = keyOf(account, split(url).path);
      remembered -= paths.get(key)?.byUrl.size ?? 0;
      paths.delete(key);
    },
  };
}

function keyOf(account: string, path: string): string {
  return JSON.stringify([account, path]);
}

/** `isLabelled`: the query consists of a label selector only. */
function split(url: string): { path: string; isLabelled: boolean } {
  const mark = url.indexOf("?");
  if (mark === -1) return { path: url, isLabelled: false };
  return { path: url.slice(0, mark), isLabelled: /^labelSelector=[^&;]+$/.test(url.slice(mark + 1)) };
}
