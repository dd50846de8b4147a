/** Parsers for the parts that the payloads of all hosts share. Only fields that are used are parsed. */
import { createHash } from "node:crypto";
import { z } from "zod";
import type { ChangedPaths, IrrelevantEvent, PullRequest, PushEvent } from "../model.ts";
import { type DeliveryHeaders, findHeader } from "./webhook-source.ts";

/** Longer than any real name, and short enough for a log line. */
export const Name = z.string().min(1).max(1_000);
export const Commit = z.string().regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/i, "is not a commit hash");
const Url = z.string().min(1).max(4_000);

/** A field that is not required: an unexpected value counts as absent. */
export function lenient<T extends z.ZodType>(type: T) {
  return type.optional().catch(undefined);
}

/** A time that may be missing, null or malformed, in epoch milliseconds. */
export const MaybeTime = lenient(z.iso.datetime({ offset: true }).transform(Date.parse));

/** Selects what was closed since then; where the forge does not report when, what was changed since then. */
export function isClosedSince(since: number) {
  return ({ closedAt, updatedAt }: Pick<PullRequest, "closedAt" | "updatedAt">) => (closedAt ?? updatedAt) >= since;
}

/** The login of a user; `undefined` if it is missing or could be anything but a name in a mention. */
export const Login = lenient(z.string().regex(/^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$/));

/** A list without its malformed elements: one of them must not hide all others. */
export function lenientList<T extends z.ZodType>(type: T) {
  return z.array(z.unknown()).transform((elements) =>
    elements.flatMap((element) => {
      const { success, data } = type.safeParse(element);
      return success ? [data] : [];
    }),
  );
}

export const MaybeUrl = lenient(Url);

const PathList = z.array(z.string()).nullish();

/** The commits of a push, in the format of all hosts. If malformed, they count as not listed. */
export const Commits = lenient(
  z.array(z.object({ id: lenient(Commit), added: PathList, modified: PathList, removed: PathList })),
);
/**
 * Limit per push of the commits besides the last one that are kept for looking up a push. GitHub lists up to 2048,
 * oldest first.
 */
const mostOthers = 50;

/** Comparing more or longer paths than this costs more than checking the repository: they count as "any". */
const maxPaths = 5_000;
const maxPathLetters = 500_000;

/** The union over all commits; `complete` says whether the host listed all of them. */
function toChangedPaths(commits: z.infer<typeof Commits>, complete: boolean): ChangedPaths {
  const paths = new Set<string>();
  let letters = 0;
  for (const commit of commits ?? []) {
    for (const list of [commit.added, commit.modified, commit.removed]) {
      for (const path of list ?? []) {
        if (!paths.has(path)) letters += path.length;
        paths.add(path);
      }
      if (paths.size > maxPaths || letters > maxPathLetters) return { complete: false, paths: [] };
    }
  }
  return { complete: complete && commits !== undefined, paths: [...paths] };
}

/** Whether it is how hosts write "no commit". */
function isZero(commit: string): boolean {
  return /^0+$/.test(commit);
}

export interface PushFacts {
  readonly ref: string;
  readonly before: string;
  readonly after: string;
  /** The commit an annotated tag points to, if the host sends it: `after` is then the tag object. */
  readonly commit?: string | undefined;
  readonly commits?: z.infer<typeof Commits>;
  /** Whether the host lists all commits between `before` and `after`, as far as its own fields show. */
  readonly listsAll: boolean;
}

/** Derives from a push's fields what is the same for all hosts. */
export function toPushChange(push: PushFacts): Pick<PushEvent, "ref" | "change" | "after" | "changed" | "others"> {
  const deleted = isZero(push.after);
  const created = isZero(push.before);
  // `before` equals `after` for a host's test button or an empty push: the listed commits are samples. Tags list none.
  const meaningful = !deleted && !created && push.before !== push.after && push.ref.startsWith("refs/heads/");
  const after = deleted ? undefined : (push.commit ?? push.after);
  const others = (push.commits ?? []).flatMap(({ id }) => (id === undefined || id === after ? [] : id));
  return {
    ref: push.ref,
    change: deleted ? "deleted" : created ? "created" : "updated",
    after,
    others: others.length > 0 ? others.slice(-mostOthers) : undefined,
    changed: toChangedPaths(push.commits, meaningful && push.listsAll),
  };
}

/** Returns `undefined` for a ref that deployments can follow, otherwise why they cannot. */
export function refProblem(ref: string): string | undefined {
  return /^refs\/(heads|tags)\/./.test(ref) ? undefined : "the ref is neither a branch nor a tag";
}

/** Returns the defined URLs without duplicates. */
export function distinctUrls(...urls: readonly (string | undefined)[]): string[] {
  return [...new Set(urls.filter((url) => url !== undefined))];
}

/**
 * Returns the host's own id of the delivery, from the first header of `names` that is usable. Otherwise the id is
 * derived from the body, so that a repeated delivery has the same id.
 */
export function deliveryId(headers: DeliveryHeaders, names: readonly string[], body: Buffer): string {
  for (const name of names) {
    const value = findHeader(headers, name);
    if (value !== undefined && /^[\w.:+/=-]{1,128}$/.test(value)) return value;
  }
  return createHash("sha256").update(body).digest("hex").slice(0, 32);
}

/** Returns `undefined` for anything that is not JSON. */
export function parseJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

type Origin = Pick<IrrelevantEvent, "forge" | "delivery">;

export function irrelevant(origin: Origin, reason: string): IrrelevantEvent {
  return { ...origin, kind: "irrelevant", reason };
}

/** The event for a genuine payload that does not match the host's documentation; names the first invalid field. */
export function misshapen(origin: Origin, event: string, error: z.ZodError): IrrelevantEvent {
  const [issue] = error.issues;
  const field = issue?.path.join(".") || "the payload";
  return irrelevant(origin, `the ${event} payload cannot be read: ${field}: ${issue?.message ?? "unexpected"}`);
}

/** Quotes a header's value for use in a sentence. */
export function quoted(text: string | undefined): string {
  return text === undefined ? "unnamed" : JSON.stringify(text.slice(0, 60));
}
