/** The webhooks of an episode's git host, which arrive only when and where the story wants them to. */
import { randomUUID } from "node:crypto";
import {
  createDeleteDelivery,
  createDelivery,
  createPullRequestDelivery,
  type Delivery as SignedDelivery,
} from "../bench/delivery.ts";
import type { GitHost } from "./git-host.ts";
import type { Delivery, Push } from "./history.ts";
import type { PullRequestEvent } from "./pull-requests.ts";
import type { Replica } from "./replica.ts";
import { waitFor } from "./wait-for.ts";

export interface Webhooks {
  /** All deliveries so far. */
  readonly deliveries: readonly Delivery[];
  /** Sends a push event to a replica; never throws. Resolves to the HTTP status, or 0 without an answer. */
  deliver(push: Push, to: Replica): Promise<number>;
  /** Sends a pull request event to a replica, likewise. */
  deliverPullRequest(event: PullRequestEvent, to: Replica): Promise<number>;
  /** Repeats failed deliveries, as git hosts do or users do by hand, until one of these replicas has taken each. */
  redeliver(pushes: readonly Push[], to: readonly Replica[]): Promise<void>;
}

export interface WebhooksDeps {
  readonly gitHost: Pick<GitHost, "gitea" | "prefix">;
  readonly urlOf: (repo: string) => string;
  readonly secret: string;
}

export function createWebhooks({ gitHost: { gitea, prefix }, urlOf, secret }: WebhooksDeps): Webhooks {
  const deliveries: Delivery[] = [];
  return {
    deliveries,
    deliver,
    async deliverPullRequest({ action, number, pullRequest, repository: { name } }, to) {
      const names = { url: urlOf(name), repoName: `${prefix}${name}` };
      const at = Date.now();
      const delivery = createPullRequestDelivery({ ...names, action, number, pullRequest }, secret);
      const status = await send(delivery, to);
      deliveries.push({ repo: name, commit: undefined, pullRequest: `${action} #${number}`, at, status });
      return status;
    },
    async redeliver(pushes, to) {
      for (const push of pushes) {
        if (push.commit === undefined) continue;
        const isTaken = () =>
          deliveries.some(({ commit, at, status }) => commit === push.commit && at >= push.at && status === 202);
        await waitFor("a delivery to be taken", async () => {
          if (isTaken()) return true;
          for (const replica of to) if ((await deliver(push, replica)) === 202) return true;
          return false;
        });
      }
    },
  };

  async function deliver({ repo, commit, paths }: Push, to: Replica): Promise<number> {
    const names = { url: urlOf(repo), ...(gitea && { repoName: `${prefix}${repo}` }) };
    const at = Date.now();
    const delivery =
      commit === undefined ? createDeleteDelivery(names, secret) : createDelivery({ ...names, commit, paths }, secret);
    const status = await send(delivery, to);
    deliveries.push({ repo, commit, at, status });
    return status;
  }
}

function send({ body, headers }: SignedDelivery, to: Replica): Promise<number> {
  return fetch(to.webhooksUrl, {
    method: "POST",
    body,
    headers: { ...headers, "x-gitea-delivery": randomUUID() },
    signal: AbortSignal.timeout(10_000),
  }).then(
    async (answer) => {
      await answer.arrayBuffer();
      return answer.status;
    },
    () => 0,
  );
}
