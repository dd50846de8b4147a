/**
 * Lists that an account may not have. kluctl asks for each kind that the cluster knows, whatever its account may read: most
 * of the requests of a diff are refused, and nearly always as they were a moment ago.
 */

/** By the address as a client wrote it, and only after that one was let through. */
export interface RefusedLists {
  find(account: string, url: string): Buffer | undefined;
  remember(account: string, url: string, answer: Buffer): void;
  /** The account got this list: no other list of the same path counts as refused any more. */
  granted(account: string, url: string): void;
}

interface Remembered {
  readonly answer: Buffer;
  readonly at: number;
}

interface Path {
  readonly byUrl: Map<string, Remembered>;
  /** Whatever the label selector is. */
  forAny?: Remembered | undefined;
}

/** So much later than it was given, a new right may be noticed. */
const rememberedMs = 30_000;
const mostPaths = 5_000;
/** Bounds what is remembered of one path: a project may ask with any number of queries. */
const mostUrls = 100;
const longestAnswer = 4_096;
/**
 * Each deployment asks with a label selector of its own. RBAC does not look at selectors, and refuses all of them with the same
 * words, but another authorizer may (Kubernetes 1.31 and newer). So many different selectors in a row show that it does not matter.
 */
const provenBy = 3;

export function createRefusedLists(now: () => number): RefusedLists {
  const paths = new Map<string, Path>();

  const isFresh = (one: Remembered | undefined): one is Remembered =>
    one !== undefined && now() - one.at < rememberedMs;

  return {
    find(account, url) {
      const { path, isLabelled } = split(url);
      const known = paths.get(keyOf(account, path));
      if (known === undefined) return undefined;
      const found = [known.byUrl.get(url), isLabelled ? known.forAny : undefined].find(isFresh);
      return found?.answer;
    },

    remember(account, url, answer) {
      if (answer.length > longestAnswer) return;
      if (paths.size >= mostPaths) paths.clear();
      const { path, isLabelled } = split(url);
      const key = keyOf(account, path);
      const known: Path = paths.get(key) ?? { byUrl: new Map() };
      paths.set(key, known);
      const refused = { answer, at: now() };
      if (known.byUrl.size >= mostUrls) known.byUrl.clear();
      known.byUrl.set(url, refused);
      if (!isLabelled) return;
      const labelled = [...known.byUrl].filter(([one, said]) => split(one).isLabelled && isFresh(said));
      // What was shown once holds until a list is granted, and is renewed by one refusal.
      if (known.forAny !== undefined || labelled.length >= provenBy) known.forAny = refused;
    },

    granted(account, url) {
      paths.delete(keyOf(account, split(url).path));
    },
  };
}

function keyOf(account: string, path: string): string {
  return JSON.stringify([account, path]);
}

/** `isLabelled`: a label selector is all that the query says. */
function split(url: string): { path: string; isLabelled: boolean } {
  const mark = url.indexOf("?");
  if (mark === -1) return { path: url, isLabelled: false };
  return { path: url.slice(0, mark), isLabelled: /^labelSelector=[^&;]+$/.test(url.slice(mark + 1)) };
}
