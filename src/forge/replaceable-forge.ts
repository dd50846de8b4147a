/** A forge whose login can be exchanged while it is in use: what is asked already is finished with the old one. */
import type { Forge } from "../ports.ts";

export interface ReplaceableForge extends Forge {
  replace(next: Forge): void;
}

export function createReplaceableForge(first: Forge): ReplaceableForge {
  let forge = first;
  return {
    id: first.id,
    kind: first.kind,
    maxCommentLength: first.maxCommentLength,
    replace: (next) => void (forge = next),
    repoName: (repo) => forge.repoName(repo),
    pullRequest: (...asked) => forge.pullRequest(...asked),
    openPullRequests: (...asked) => forge.openPullRequests(...asked),
    ownComments: (...asked) => forge.ownComments(...asked),
    createComment: (...asked) => forge.createComment(...asked),
    updateComment: (...asked) => forge.updateComment(...asked),
    deleteComment: (...asked) => forge.deleteComment(...asked),
    setStatus: (...asked) => forge.setStatus(...asked),
  };
}
