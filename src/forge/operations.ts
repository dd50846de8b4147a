/** The requests that a forge sends to its host. */
import type { Forge } from "../ports.ts";

export type ForgeOperation = Exclude<keyof Forge, "id" | "kind" | "maxCommentLength" | "maxDetailsBytes" | "repoName">;

const operations: Readonly<Record<ForgeOperation, true>> = {
  pullRequest: true,
  openPullRequests: true,
  closedPullRequests: true,
  ownComments: true,
  createComment: true,
  updateComment: true,
  deleteComment: true,
  setStatus: true,
  setStatuses: true,
  setDeployment: true,
};

export const forgeRequests = Object.keys(operations) as readonly ForgeOperation[];
