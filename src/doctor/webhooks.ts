/** Checks the webhooks of the followed repositories, as far as the forge's login may read them. */
import { findMissReason, describeMissReason, type ReadWebhook } from "../intake/why-missed.ts";
import { ForgeError } from "../errors.ts";
import { createLimit } from "../kit/limit.ts";
import { type FoundWebhooks, followsGit, type MissReason, type RepoId } from "../model.ts";
import type { ListedDeployment } from "./cluster.ts";
import { type Finding, ok, warning } from "./finding.ts";

export interface WebhookLooker {
  readonly id: string;
  /** `undefined` for a repository of another host. */
  readonly repoName: (repo: RepoId) => string | undefined;
  /** Throws ForgeError. */
  readonly find: (repoName: string) => Promise<FoundWebhooks>;
  readonly now: () => number;
}

const repositoriesAtOnce = 4;
/** What git hosts keep. */
const recentMs = 3 * 24 * 3_600_000;
/** If there was no push, none was sent; and a webhook whose deliveries are not listed is not known to fail. */
const sound: readonly MissReason["kind"][] = ["unsent", "unlisted"];

export async function examineWebhooks(
  { id, repoName, find, now }: WebhookLooker,
  found: readonly ListedDeployment[],
): Promise<Finding[]> {
  const repos = new Set(found.flatMap(({ deployment }) => (followsGit(deployment) ? [deployment.repo] : [])));
  const names = [...repos].sort().flatMap((repo) => repoName(repo) ?? []);
  const limit = createLimit(repositoriesAtOnce);
  const subject = `webhooks of ${id}`;

  async function check(name: string): Promise<Finding> {
    try {
      const { ours, similar } = await find(name);
      const read: ReadWebhook[] = [];
      for (const hook of ours) read.push({ hook, attempts: await hook.attempts?.(now() - recentMs) });
      const delivered = read
        .flatMap(({ attempts = [] }) => attempts.filter((one) => one.ok))
        .map((one) => one.delivery);
      const reason = findMissReason(read, similar, new Set(delivered));
      if (sound.includes(reason.kind)) return ok(subject, `${name}: the webhook to ${reason.host} reports pushes`);
      const { why, advice } = describeMissReason(reason, id);
      return warning(subject, `${name}: ${why}`, advice);
    } catch (error) {
      if (!(error instanceof ForgeError)) throw error;
      // Reporting needs no access to webhooks, so a login without it is not a problem.
      return ok(subject, `${name}: not checked, because the login cannot read webhooks`);
    }
  }
  return Promise.all(names.map((name) => limit.run(() => check(name))));
}
