/** Git hosts whose webhooks do not arrive. */
import type { MissedWebhooks } from "../../intake/missed-webhooks.ts";
import { describeMissReason } from "../../intake/why-missed.ts";
import { type AnyDeployment, followsGit, type MissedPushes, type NoticeLine } from "../../model.ts";
import { utcText } from "../../kit/utc-text.ts";
import type { Notice } from "./notices.ts";

/** One push may have been in the moment of a restart. */
const fewest = 2;

/** One for each forge with repositories whose last pushes no webhook reported, about the deployments that follow them. */
export async function findSilentForges(
  forges: readonly string[],
  { missed }: Pick<MissedWebhooks, "missed">,
  all: readonly AnyDeployment[],
): Promise<readonly Notice[]> {
  const found = await Promise.all(forges.map(async (forge) => ({ forge, repos: await missed(forge) })));
  return found.flatMap(({ forge, repos }) => {
    const many = repos.filter(({ count }) => count >= fewest);
    return many.length === 0 ? [] : [toNotice(forge, many, all)];
  });
}

function toNotice(forge: string, repos: readonly MissedPushes[], all: readonly AnyDeployment[]): Notice {
  const names = new Set(repos.map(({ repo }) => repo));
  const lines = repos.map(({ repo, since, reason }): NoticeLine => {
    const known = reason && describeMissReason(reason, forge);
    const because = known ? `: ${known.why} (${known.advice})` : "";
    return {
      name: repo,
      state: "warning",
      text: `no webhook has reported its pushes since ${utcText(since)}${because}`,
    };
  });
  return {
    ...{ subject: `webhooks ${forge}`, kind: "webhooks", state: "open", settled: true, about: forge, lines },
    events: new Set(["webhooks"]),
    unchanged: 0,
    deployments: all.filter((deployment) => followsGit(deployment) && names.has(deployment.repo)),
    members: [],
  };
}
