/** Maintains one comment per pull request: finds it, edits it, and creates it again if it was deleted. */
import type { ForgeComment, PullRequestKey } from "../model.ts";
import type { Forge } from "../ports.ts";
import type { Marker } from "./marker.ts";

export type OwnComments = ReturnType<Forge["ownComments"]>;

export interface CommentDeps {
  readonly forge: Pick<Forge, "ownComments" | "createComment" | "updateComment" | "deleteComment">;
  readonly marker: Marker;
  /** What the host was asked just now. */
  readonly comments: OwnComments;
  /** Another server overwrote the comment. */
  readonly onForeign?: (() => void) | undefined;
  /** Whether our comment stays as it is although its text differs. */
  readonly isUpToDate?: ((body: string) => boolean) | undefined;
}

/**
 * Returns the resulting comment; `undefined` if there is none. `edit-only`: updates an existing comment, but creates
 * none.
 */
export async function writeComment(
  { forge, marker, comments, onForeign, isUpToDate = () => false }: CommentDeps,
  key: PullRequestKey,
  body: string,
  how: "create" | "edit-only",
  signal?: AbortSignal,
): Promise<ForgeComment | undefined> {
  const oursAmong = async (found: OwnComments): Promise<ForgeComment[]> =>
    (await found).filter((comment) => marker.isOn(comment.body, key));

  const [ours, ...others] = await oursAmong(comments);
  await remove(others);
  if (ours !== undefined) {
    if (marker.isByAnother(ours.body, key)) onForeign?.();
    if (sameText(ours.body, body) || isUpToDate(ours.body)) return ours;
    const updated = await forge.updateComment(key, ours.id, body, signal);
    if (updated !== undefined) return updated;
  }
  if (how === "edit-only") return undefined;
  const created = await forge.createComment(key, body, signal);
  // Another replica may also have found none and created one. Both now see both, and keep the oldest.
  const [oldest = created, ...later] = await oursAmong(forge.ownComments(key, signal));
  await remove(later);
  if (oldest.id === created.id || sameText(oldest.body, body)) return oldest;
  return (await forge.updateComment(key, oldest.id, body, signal)) ?? created;

  async function remove(comments: readonly ForgeComment[]): Promise<void> {
    for (const { id } of comments) await forge.deleteComment(key, id, signal);
  }
}

/** Hosts change line endings and trim trailing white space. */
function sameText(one: string, other: string): boolean {
  const normal = (text: string) => text.replaceAll("\r\n", "\n").trimEnd();
  return normal(one) === normal(other);
}
